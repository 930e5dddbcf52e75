//! The facts as JSON; the form is described at the command's arguments.

use std::path::Path;

use serde_json::{Value as Json, json};
use smidgen_core::gguf::{Entry, FileName, GgmlType, Gguf};
use smidgen_edit::{PartKind, json as value};

use super::{
    facts::{Facts, OfType, Tensor},
    set::Member,
};
use crate::commands::{
    meta::entry_json,
    verify::{file_name, findings_json},
};

pub(super) fn inspect(
    path: &Path,
    gguf: &Gguf<'_>,
    members: &[Member<'_>],
    facts: &Facts<'_>,
    no_tensors: bool,
) -> Json {
    let data = gguf.data_offset();
    let metadata: Json = gguf.metadata().map(entry).collect();
    let sharded = members.len() > 1;
    let tensors = || -> Json {
        let tensors = facts.tensors.iter();
        tensors.map(|found| tensor(found, sharded)).collect()
    };
    json!({
        "schema": 1,
        "file": path.display().to_string(),
        "bytes": value::count(gguf.bytes().len() as u64),
        "version": gguf.version(),
        "alignment": gguf.alignment(),
        "offsets": {
            "metadata": value::count(gguf.metadata_offset()),
            "tensor_infos": value::count(gguf.infos_offset()),
            "tensor_infos_end": value::count(gguf.infos_end()),
            "data": (data != u64::MAX).then(|| value::count(data)),
        },
        "metadata": metadata,
        "tensors": (!no_tensors).then(tensors),
        "totals": totals(gguf, facts),
        "layout": layout(facts),
        "file_name": file_name(path).and_then(FileName::parse).map(|name| name_json(&name)),
        "shards": sharded.then(|| shards(members)),
        "faults": findings_json(members[0].faults()),
        "warnings": findings_json(members[0].warnings()),
    })
}

fn entry(entry: Entry<'_>) -> Json {
    let mut json = entry_json(entry.key_bytes(), &entry.value);
    json["offset"] = value::count(entry.offset);
    json
}

fn tensor(tensor: &Tensor<'_>, sharded: bool) -> Json {
    let info = &tensor.info;
    json!({
        "name": value::text(info.name_bytes()),
        "type": info.ty().to_string(),
        "type_id": info.ty().id(),
        "dims": info.dims().iter().map(|&dim| value::count(dim)).collect::<Json>(),
        "elements": info.elements().map(value::count),
        "bytes": info.byte_len().map(value::count),
        "offset": value::count(info.offset()),
        "file_offset": tensor.file_offset().map(value::count),
        "shard": sharded.then_some(tensor.shard),
    })
}

fn totals(gguf: &Gguf<'_>, facts: &Facts<'_>) -> Json {
    let of_type = |(ty, sum): (&GgmlType, &OfType)| {
        json!({
            "type": ty.to_string(),
            "tensors": value::count(sum.tensors),
            "elements": value::count(sum.elements),
            "bytes": ty.geometry().map(|_| value::count(sum.bytes)),
        })
    };
    let types: Json = facts.types.iter().map(of_type).collect();
    json!({
        "metadata": gguf.metadata_count(),
        "tensors": facts.tensors.len(),
        "parameters": value::count(facts.parameters()),
        "tensor_bytes": value::count(facts.tensor_bytes()),
        "bits_per_weight": facts.bits_per_weight(),
        "types": types,
        "padding": value::count(facts.bytes_of(PartKind::Padding)),
        "gaps": value::count(facts.bytes_of(PartKind::Gaps)),
        "trailing": value::count(facts.bytes_of(PartKind::Trailing)),
    })
}

fn layout(facts: &Facts<'_>) -> Json {
    let part = |(kind, &bytes): (&PartKind, &u64)| {
        let (part, group, ty) = match *kind {
            PartKind::Metadata => ("metadata", None, None),
            PartKind::TensorInfos => ("tensor_infos", None, None),
            PartKind::Tensors { group, ty } => ("tensors", Some(group), Some(ty.to_string())),
            PartKind::Padding => ("padding", None, None),
            PartKind::Gaps => ("gaps", None, None),
            PartKind::Trailing => ("trailing", None, None),
        };
        json!({ "part": part, "group": group, "type": ty, "bytes": value::count(bytes) })
    };
    facts.parts.iter().map(part).collect()
}

/// A file name's parts.
pub(crate) fn name_json(name: &FileName<'_>) -> Json {
    json!({
        "sidecar": name.sidecar,
        "base_name": name.base_name,
        "size_label": name.size_label,
        "fine_tune": name.fine_tune,
        "version": name.version,
        "encoding": name.encoding,
        "type": name.kind,
        "shard": name.shard.map(|(number, count)| json!([number, count])),
        "conforms": name.conforms(),
        "problems": name.problems().map(|problem| problem.to_string()).collect::<Vec<_>>(),
    })
}

fn shards(members: &[Member<'_>]) -> Json {
    let shard = |(number, member): (usize, &Member<'_>)| {
        let gguf = member.verdict.as_ref().and_then(|verdict| verdict.gguf);
        json!({
            "number": number,
            "file": member.name,
            "missing": member.is_missing(),
            "error": member.error,
            "bytes": member.verdict.is_some().then(|| value::count(member.bytes)),
            "tensors": gguf.map(|gguf| gguf.tensor_count()),
            "faults": findings_json(member.faults()),
            "warnings": findings_json(member.warnings()),
        })
    };
    (1..).zip(members).map(shard).collect()
}

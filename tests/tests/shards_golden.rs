//! Split and merge against what llama.cpp's tool makes, and every whole model there and back.

use std::{
    fs,
    path::{Path, PathBuf},
};

use smidgen_core::gguf::{GgmlType, Gguf, ShardName};
use smidgen_io::{GgufBuilder, Overwrite};
use smidgen_shards::{
    Limit, MergeOptions, MergePlan, ShardSet, Size, SplitOptions, SplitPlan, merge_deleting,
};
use smidgen_tests::Smidgen;
use tempfile::TempDir;

fn options(limit: Limit, no_tensor_first_split: bool) -> SplitOptions {
    SplitOptions {
        limit,
        no_tensor_first_split,
    }
}

fn tensors(most: u32) -> Limit {
    Limit::Tensors(most.try_into().expect("not zero"))
}

fn bytes(most: u64) -> Limit {
    Limit::Bytes(Size::new(most).expect("not zero"))
}

fn split(model: &Path, prefix: &Path, options: &SplitOptions) -> SplitPlan {
    let plan = SplitPlan::new(model, prefix, options).expect("a model that can be split");
    plan.write(&mut |_, _| {}).expect("shards");
    plan
}

fn merge(first: &Path, output: &Path, options: MergeOptions) {
    let plan = MergePlan::new(first, output, options, Overwrite::Refuse).expect("a whole set");
    plan.write(&mut |_, _| {}).expect("an output");
}

/// llama.cpp's sets have no `general.alignment`, so not only the tensors but all bytes are to be
/// the same: its keys, their order and types, its layout.
#[test]
fn sets_are_llama_cpps_byte_for_byte() {
    let Some(shared) = smidgen_tests::shared() else {
        return;
    };
    let model = shared.join("golden/stories260K/gguf/stories260K-Q4_0.gguf");
    let golden = shared.join("golden/shards");
    let smidgen = Smidgen::new();
    let [ten, sixteen] = [(10, false, "max10", 5), (16, true, "first16", 4)];
    for (most, first_alone, prefix, count) in [ten, sixteen] {
        let folder = TempDir::new().expect("a folder");
        let options = options(tensors(most), first_alone);
        let plan = split(&model, &folder.path().join(prefix), &options);
        assert_eq!(plan.shards().len(), count);
        let most = most.to_string();
        let mut words = vec!["gguf-split", "--split_max_tensors", &most];
        words.extend(first_alone.then_some("--no-tensor-first-split"));
        words.extend([model.to_str().expect("UTF-8"), prefix]);
        smidgen.run(words).expect_success();
        for shard in plan.shards() {
            let name = shard.path().file_name().expect("a name");
            let ours = fs::read(shard.path()).expect("our shard");
            assert_eq!(ours.len() as u64, shard.bytes());
            assert!(
                ours == fs::read(golden.join(name)).expect("theirs"),
                "{name:?}"
            );
            assert!(
                ours == fs::read(smidgen.path(name)).expect("the command's"),
                "{name:?}"
            );
        }
    }
}

#[test]
fn llama_cpps_sets_merge_to_the_original_and_to_its_own_merge() {
    let Some(shared) = smidgen_tests::shared() else {
        return;
    };
    let model = shared.join("golden/stories260K/gguf/stories260K-Q4_0.gguf");
    let model = fs::read(model).expect("the model");
    let golden = shared.join("golden/shards");
    let folder = TempDir::new().expect("a folder");
    for first in ["max10-00001-of-00005.gguf", "first16-00001-of-00004.gguf"] {
        let output = folder.path().join(first);
        merge(&golden.join(first), &output, MergeOptions::default());
        assert!(fs::read(output).expect("the output") == model, "{first}");
    }
    let keep = MergeOptions {
        keep_split_keys: true,
    };
    let output = folder.path().join("kept.gguf");
    merge(&golden.join("max10-00001-of-00005.gguf"), &output, keep);
    let theirs = fs::read(golden.join("merged-max10.gguf")).expect("their merge");
    assert!(fs::read(output).expect("the output") == theirs);
}

/// Splits a model in a few ways, or in more of them, and merges each set with and without deletion.
fn there_and_back(model: &Path, in_all_ways: bool) {
    let original = fs::read(model).expect("the model");
    let whole =
        Gguf::parse(&original, &mut vec![0; Gguf::scratch_len(&original)]).expect("a model");
    let largest = whole.tensors().filter_map(|info| info.byte_len()).max();
    let largest = largest.expect("a tensor");
    let ways = [
        (tensors(15), true),
        (bytes(2 * largest + 100), false),
        (tensors(1), false),
        (tensors(1000), false),
        (bytes(1), true),
    ];
    for (limit, first_alone) in ways.into_iter().take(if in_all_ways { 5 } else { 2 }) {
        let folder = TempDir::new().expect("a folder");
        let shown = format!("{}, {limit:?}", model.display());
        let options = options(limit, first_alone);
        let plan = split(model, &folder.path().join("m"), &options);
        assert!(plan.merges_to_same_bytes(), "{shown}");
        let first = plan.shards()[0].path();
        check_set(&whole, first, limit, first_alone);

        let output = folder.path().join("out.gguf");
        merge(first, &output, MergeOptions::default());
        assert!(
            fs::read(&output).expect("the output") == original,
            "{shown}"
        );
        fs::remove_file(&output).expect("removing the output");
        let options = MergeOptions::default();
        let merged = merge_deleting(folder.path(), &output, options, &mut |_, _| {});
        let merged = merged.unwrap_or_else(|e| panic!("{shown}: {e}"));
        assert_eq!(merged.bytes, original.len() as u64);
        assert!(
            fs::read(&output).expect("the output") == original,
            "{shown}"
        );
        assert_eq!(fs::read_dir(folder.path()).expect("the folder").count(), 1);
    }
}

/// Checks a set by the rules, with nothing of the code that made it but the parser.
fn check_set(whole: &Gguf<'_>, first: &Path, limit: Limit, first_alone: bool) {
    let name = first
        .file_name()
        .and_then(|name| name.to_str())
        .expect("a name");
    let name = ShardName::parse(name).expect("a shard's name");
    let mut originals = whole.tensors();
    for number in 1..=name.count {
        let path = first.with_file_name(ShardName { number, ..name }.to_string());
        let bytes = fs::read(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
        let shard = Gguf::parse(&bytes, &mut vec![0; Gguf::scratch_len(&bytes)]).expect("a shard");
        let shown = path.display();
        assert_eq!(shard.alignment(), whole.alignment(), "{shown}");
        assert_eq!(shard.get_u32("split.no"), Ok(Some(number - 1)), "{shown}");
        assert_eq!(
            shard.get_u32("split.count"),
            Ok(Some(name.count)),
            "{shown}"
        );
        let total = whole.tensor_count() as u64;
        assert_eq!(
            shard.get_u64("split.tensors.count"),
            Ok(Some(total)),
            "{shown}"
        );
        let keys = shard.metadata().map(|entry| entry.key());
        let keys: Vec<_> = keys.filter(|key| !key.starts_with("split.")).collect();
        let all: Vec<_> = whole.metadata().map(|entry| entry.key()).collect();
        match number {
            1 => assert_eq!(keys, all),
            _ if whole.alignment() == 32 => assert!(keys.is_empty(), "{shown}: {keys:?}"),
            _ => assert_eq!(keys, ["general.alignment"], "{shown}"),
        }
        assert_eq!(
            shard.tensor_count() == 0,
            number == 1 && first_alone,
            "{shown}"
        );
        let mut held = 0;
        for info in shard.tensors() {
            let original = originals.next().expect("no more tensors than there were");
            assert_eq!((info.name(), info.ty()), (original.name(), original.ty()));
            assert_eq!(info.dims(), original.dims());
            assert!(
                shard.data(&info) == whole.data(&original),
                "{}",
                info.name()
            );
            held += info.byte_len().expect("a known type");
        }
        match limit {
            Limit::Tensors(most) => assert!(shard.tensor_count() <= most.get() as usize),
            Limit::Bytes(most) => assert!(held <= most.bytes() || shard.tensor_count() == 1),
        }
    }
    assert_eq!(originals.next(), None);
    assert_eq!(
        ShardSet::open(first).expect("a set").tensor_count(),
        whole.tensor_count()
    );
}

fn models_in(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).unwrap_or_else(|e| panic!("{}: {e}", folder.display()));
    let paths = entries.map(|entry| entry.expect("an entry").path());
    let mut models: Vec<_> = paths
        .filter(|path| {
            path.extension()
                .is_some_and(|extension| extension == "gguf")
        })
        .collect();
    models.sort();
    models
}

#[test]
fn every_whole_model_comes_back_byte_for_byte() {
    let Some(shared) = smidgen_tests::shared() else {
        return;
    };
    let mut models = models_in(&shared.join("golden/stories260K/gguf"));
    models.extend(models_in(&shared.join("golden/wide")));
    assert!(models.len() >= 33, "only {} models", models.len());
    for model in models {
        there_and_back(&model, model.ends_with("stories260K-Q4_0.gguf"));
    }
}

/// What the Python package writes with an alignment of its own: the key where it was set, all
/// tensors, the last too, padded to it.
#[test]
fn models_with_other_alignments_come_back_byte_for_byte() {
    let folder = TempDir::new().expect("a folder");
    for alignment in [1_u32, 8, 32, 64, 4096] {
        for version in [2, 3] {
            let mut builder = GgufBuilder::new();
            builder.set("general.architecture", "llama");
            builder.set("general.alignment", alignment);
            builder.set("general.name", "aligned");
            builder.set("numbers", &[1.0_f32, -0.0, f32::NAN][..]);
            for (number, len) in [1_u64, 1024, 7, 0, 4096, 33].into_iter().enumerate() {
                let value = |i| (i * 13 + number as u64) as u8;
                let data: Vec<_> = (0..4 * len).map(value).collect();
                let name = format!("blk.{number}.weight");
                let added = builder.tensor(&name, &[len], GgmlType::F32, data);
                added.expect("a tensor");
            }
            let mut bytes = Vec::new();
            builder.write_to(&mut bytes).expect("a model");
            bytes[4] = version;
            let model = folder.path().join(format!("{alignment}-{version}.gguf"));
            fs::write(&model, bytes).expect("writing the model");
            there_and_back(&model, true);
        }
    }
}

/// A model that is not laid out as ggml does it keeps its tensors, and `split` says so.
#[test]
fn a_model_laid_out_otherwise_keeps_its_tensors() {
    let smidgen = Smidgen::new();
    let mut builder = GgufBuilder::new();
    builder.set("general.name", "cut");
    for name in ["a", "b"] {
        let added = builder.tensor(name, &[3], GgmlType::F32, vec![7; 12]);
        added.expect("a tensor");
    }
    let mut whole = Vec::new();
    builder.write_to(&mut whole).expect("a model");
    // Without the padding behind the last tensor.
    let cut = &whole[..whole.len() - 20];
    smidgen.write("cut.gguf", cut);
    let done = smidgen.run(["split", "--split-max-tensors", "1", "cut.gguf", "m"]);
    done.expect_success().expect_stderr(&["not byte for byte"]);
    let done = smidgen.run(["merge", "m-00001-of-00002.gguf", "out.gguf"]);
    done.expect_success();
    assert_eq!(
        fs::read(smidgen.path("out.gguf")).expect("the output"),
        whole
    );
}

//! `smidgen verify` on the first shard of a set, and on a folder.

use serde_json::json;
use smidgen_tests::{
    Smidgen,
    cases::{self, Case, Expectation},
};

/// The command in a folder that holds the case's files in a folder `set`.
fn with_set(case: &Case) -> Smidgen {
    let smidgen = Smidgen::new();
    std::fs::create_dir(smidgen.path("set")).unwrap();
    for file in &case.files {
        let name = file.file_name().unwrap().to_str().unwrap();
        smidgen.write(&format!("set/{name}"), std::fs::read(file).unwrap());
    }
    smidgen
}

#[test]
fn every_set_gets_the_verdict_that_merge_gives() {
    let mut sets = 0;
    for case in cases::of("split", "merge") {
        // What is wrong with these is the name that merge is given, not the set.
        if ["shard_entry_is_2", "shard_glob_overwrite"].contains(&&case.id[..]) {
            continue;
        }
        let smidgen = with_set(&case);
        let names = case
            .files
            .iter()
            .filter_map(|file| file.file_name()?.to_str());
        let Some(first) = names
            .into_iter()
            .find(|name| name.contains("-00001-of-0000"))
        else {
            continue;
        };
        // A set of one has no others to be checked against.
        if first.ends_with("-of-00001.gguf") || case.kind == "shard_name" {
            continue;
        }
        sets += 1;
        for path in [format!("set/{first}"), "set".to_owned()] {
            let done = smidgen.run(["verify", "--json", &path]);
            let json = done.json();
            let set = &json["sets"][0];
            assert_eq!(set["first"], format!("set/{first}"), "{}", case.id);
            if case.expectation == Expectation::Accept {
                done.expect_success();
                assert_eq!(set["valid"], true, "{}: {set}", case.id);
                assert_eq!(set["shards"], 3, "{}", case.id);
                assert_eq!(set["tensors"], case.facts["n_tensors"], "{}", case.id);
                continue;
            }
            done.expect_code(1);
            assert_eq!(set["valid"], false, "{}", case.id);
            let reason = case.reason.as_deref().unwrap();
            let code = match reason {
                "truncated" => "shard_file",
                "kv_type" => "shard_key",
                // A key that is missing is a fault of the key.
                _ if case.id.ends_with("_missing") => "shard_key",
                other => other,
            };
            let faults = set["faults"].as_array().unwrap();
            let found = faults.iter().any(|fault| fault["code"] == code);
            assert!(found, "{}: no {code} in {set}", case.id);
        }
    }
    assert!(sets >= 12, "{sets} sets");
}

#[test]
fn all_faults_are_listed_and_a_lone_shard_has_none() {
    let smidgen = with_set(&cases::named("shard_ok_3"));
    let shard = |number: u32| smidgen.path(format!("set/m-{number:05}-of-00003.gguf"));
    let done = smidgen.run(["verify", "set"]);
    done.expect_success();
    done.expect_stdout(&["set/m-00001-of-00003.gguf: ok: whole set of 3 shards, 8 tensors"]);

    std::fs::copy(shard(2), shard(3)).unwrap();
    let done = smidgen.run(["verify", "set"]);
    done.expect_code(1).expect_stdout(&[
        "set/m-00003-of-00003.gguf: fault: split.no is 1, by the file's name it is 2",
        "set/m-00001-of-00003.gguf: fault: the shards have 9 tensors, split.tensors.count is 8",
        "set/m-00003-of-00003.gguf: fault: tensor blk.0.c is in set/m-00002-of-00003.gguf too",
    ]);

    std::fs::remove_file(shard(2)).unwrap();
    std::fs::remove_file(shard(3)).unwrap();
    let done = smidgen.run(["verify", "--json", "set/m-00001-of-00003.gguf"]);
    done.expect_success();
    assert_eq!(done.json()["sets"], json!([]));

    std::fs::remove_file(shard(1)).unwrap();
    let done = smidgen.run(["verify", "set"]);
    done.expect_error(&["set: no shard in this folder"]);
}

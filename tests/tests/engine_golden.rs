//! The engine against float64 and against what other programs made of stories260K.

mod engine;

use engine::{Run, argmax, golden, golden_json, ids, read_f32, stories, worst};
use smidgen_core::kv_cache::KvType;

#[test]
fn f32_logits_and_greedy_ids_are_those_of_float64() {
    let Some(folder) = golden() else { return };
    let model = stories("F32").unwrap();
    let prompts = golden_json("stories260K/greedy.json").unwrap();
    let prompts = prompts.as_array().unwrap();
    assert!(prompts.len() >= 5);
    for prompt in prompts {
        let (prompt_ids, greedy) = (ids(&prompt["prompt_ids"]), ids(&prompt["greedy_ids"]));
        let name = |key: &str| {
            folder
                .join("stories260K")
                .join(prompt[key].as_str().unwrap())
        };
        let truth = read_f32(&name("logits"));
        let run = Run::new(&model, KvType::F32, 512, 8);
        run.with_session(|mut session| {
            let mut at = 0;
            session
                .prompt_each(&prompt_ids, |index, logits| {
                    let expected = &truth[index * 512..(index + 1) * 512];
                    let off = worst(logits, expected);
                    assert!(off < 1e-4, "position {index}: {off}");
                    at += 1;
                })
                .unwrap();
            assert_eq!(at * 512, truth.len());
            let mut found = prompt_ids.clone();
            while found.len() < greedy.len() {
                let next = argmax(session.logits().unwrap());
                found.push(next);
                session.step(next).unwrap();
            }
            assert_eq!(found, greedy);
            let last = read_f32(&name("last_logits"));
            let off = worst(session.logits().unwrap(), &last);
            assert!(off < 1e-4, "last position: {off}");
        });
    }
}

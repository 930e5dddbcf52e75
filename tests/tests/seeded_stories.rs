//! Text to text: llama2.c's settings and seed give llama2.c's story, character for character.

mod engine;

use engine::{Run, golden, stories};
use smidgen_core::kv_cache::KvType;
use smidgen_core::sampler::{Sampler, SamplerSettings};
use smidgen_core::tokenizer::{Decoder, Vocabulary};

#[test]
fn a_seed_gives_the_story_of_llama2c() {
    let Some(folder) = golden() else { return };
    let file = stories("F32").unwrap();
    let gguf = file.gguf().unwrap();
    let mut index = vec![0; Vocabulary::index_len(&gguf)];
    let vocabulary = Vocabulary::load(&gguf, &mut index).unwrap();

    let text = std::fs::read(folder.join("stories260K/sampled_llama2c.json")).unwrap();
    let stories: serde_json::Value = serde_json::from_slice(&text).unwrap();
    let stories = stories.as_array().unwrap();
    assert_eq!(stories.len(), 5);
    for story in stories {
        let number = |key: &str| story[key].as_f64().unwrap() as f32;
        let settings = SamplerSettings {
            temperature: number("temperature"),
            top_p: number("top_p"),
            ..SamplerSettings::LLAMA2C
        };
        let prompt = story["prompt"].as_str().unwrap_or_default().as_bytes();
        let options = vocabulary.encode_options();
        let mut scratch = vec![0; vocabulary.scratch_len(prompt, options)];
        let mut ids = Vec::new();
        vocabulary
            .encode(prompt, options, &mut scratch, &mut |id| ids.push(id))
            .unwrap();

        // With scratch for the choice that holds all tokens, few, and none.
        for scratch in [512, 8, 0] {
            let mut sampler = Sampler::new(settings, story["seed"].as_u64().unwrap()).unwrap();
            let mut ids = ids.clone();
            Run::new(&file, KvType::F32, 512, 8).with_session(|mut session| {
                session.prompt(&ids).unwrap();
                // llama2.c counts positions, and ends at BOS.
                while ids.len() <= story["n"].as_u64().unwrap() as usize {
                    let logits = session.logits_mut().unwrap();
                    let next = sampler.sample(logits, &ids, &mut vec![0; scratch]).unwrap();
                    if Some(next) == vocabulary.bos() {
                        break;
                    }
                    ids.push(next);
                    session.step(next).unwrap();
                }
            });
            let mut found = Vec::new();
            let mut decoder = Decoder::new();
            for id in ids {
                decoder
                    .push(&vocabulary, id, &mut |part| found.extend(part))
                    .unwrap();
            }
            decoder.finish(&mut |part| found.extend(part));
            // llama2.c prints a newline at the end.
            found.push(b'\n');
            assert_eq!(String::from_utf8(found).unwrap(), story["text"]);
        }
    }
}

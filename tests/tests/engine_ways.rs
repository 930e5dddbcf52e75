//! Every way of getting to logits gives the same bits.

mod engine;

use std::num::NonZeroUsize;
use std::sync::atomic::{AtomicUsize, Ordering};

use engine::{KV_TYPES, Run, golden, stories};
use smidgen_core::kernels::Backend;
use smidgen_core::kv_cache::KvType;
use smidgen_core::model::Matrix;
use smidgen_core::ops::{PIECE, Parallel};
use smidgen_core::session::{PrefixError, Progress, Session, SessionError};
use smidgen_io::{FileBytes, Threads};

/// Tokens from all over the vocabulary.
fn tokens(count: u32) -> Vec<u32> {
    (0..count).map(|n| (n * 197 + 1) % 512).collect()
}

/// The bits of the logits behind every token, one token at a time.
fn step_by_step(run: &Run<'_>, tokens: &[u32]) -> Vec<Vec<u32>> {
    run.with_session(|mut session| {
        let step = |id: &u32| bits(session.step(*id).unwrap());
        tokens.iter().map(step).collect()
    })
}

fn bits(logits: &[f32]) -> Vec<u32> {
    logits.iter().map(|x| x.to_bits()).collect()
}

/// Files of all kinds of weights: f32, f16, blocks of 32, blocks of 256.
fn files() -> Vec<FileBytes> {
    let Some(folder) = golden() else {
        return Vec::new();
    };
    let types = ["F32", "F16", "Q8_0", "Q4_0", "Q5_1"];
    let mut files: Vec<_> = types.iter().filter_map(|ty| stories(ty)).collect();
    for ty in ["Q2_K", "Q4_K", "Q6_K"] {
        let path = folder.join(format!("wide/wide-{ty}.gguf"));
        files.push(FileBytes::open(path).unwrap());
    }
    files
}

#[test]
fn batches_back_ends_and_layer_by_layer() {
    let tokens = tokens(40);
    for (number, file) in files().iter().enumerate() {
        let place = file.path().display();
        // The cache has nothing to do with the weights.
        for kv in &KV_TYPES[..if number < 3 { 4 } else { 1 }] {
            let mut run = Run::new(file, *kv, 40, 1);
            run.backend = Backend::SCALAR;
            let expected = step_by_step(&run, &tokens);
            for backend in Backend::available() {
                run.backend = backend;
                let name = backend.name();
                for batch in [1, 3, 8, 64] {
                    run.options.batch = batch;
                    run.with_session(|mut session| {
                        let each = |at: usize, logits: &[f32]| {
                            assert!(
                                bits(logits) == expected[at],
                                "{place}, {kv:?}, {name}, batch {batch}, position {at}"
                            );
                        };
                        session.prompt_each(&tokens, each).unwrap();
                        // And once more, with logits only in the end.
                        session.reset();
                        let last = bits(session.prompt(&tokens).unwrap());
                        assert!(
                            last == expected[39],
                            "{place}, {kv:?}, {name}, batch {batch}"
                        );
                    });
                }
                run.options.batch = 5;
                run.with_session(|mut session| {
                    for (number, part) in tokens.chunks(5).enumerate() {
                        session.start(part).unwrap();
                        assert_eq!(session.step(1), Err(SessionError::Busy));
                        assert_eq!(session.logits(), Err(SessionError::Busy));
                        let mut turns = 1;
                        while session.advance().unwrap() == Progress::Working {
                            turns += 1;
                        }
                        assert_eq!(turns, session.model().layers.len() + 1);
                        let found = bits(session.logits().unwrap());
                        assert!(found == expected[number * 5 + 4], "{place}, {kv:?}, {name}");
                    }
                    assert_eq!(session.advance(), Err(SessionError::Idle));
                });
            }
        }
    }
}

/// Counts the products that are spread.
struct Counted {
    threads: Threads,
    products: AtomicUsize,
}

impl Parallel for Counted {
    fn for_parts(&self, out: &mut [f32], unit: usize, job: &(dyn Fn(usize, &mut [f32]) + Sync)) {
        self.products.fetch_add(1, Ordering::Relaxed);
        self.threads.for_parts(out, unit, job);
    }
}

#[test]
fn pauses_inside_of_steps() {
    let tokens = tokens(40);
    for (number, file) in files().iter().enumerate() {
        for kv in &KV_TYPES[..if number < 3 { 4 } else { 1 }] {
            for backend in Backend::available() {
                let mut run = Run::new(file, *kv, 40, 1);
                run.backend = backend;
                let expected = step_by_step(&run, &tokens);
                for batch in [1, 7, 64] {
                    run.options.batch = batch;
                    let pauses = AtomicUsize::new(0);
                    let run = Run {
                        pauses: Some(&pauses),
                        ..run
                    };
                    let each = |at: usize, logits: &[f32]| {
                        let name = backend.name();
                        assert!(
                            bits(logits) == expected[at],
                            "{kv:?}, {name}, batch {batch}, position {at}"
                        );
                    };
                    let pieces = run.with_session(|mut session| {
                        session.prompt_each(&tokens, each).unwrap();
                        let hp = session.model().hyperparameters;
                        let rows = |m: Matrix<'_>| m.bytes.len() / m.row_bytes;
                        let products = session.model().matrices().skip(1);
                        let products: usize = products.map(|m| rows(m) * m.cols).sum();
                        products / PIECE + hp.n_layers * hp.n_kv_heads
                    });
                    // No piece is larger than it may be.
                    let pauses = pauses.into_inner();
                    assert!(pauses >= 40 * pieces, "{pauses} pauses, {pieces} pieces");
                }
            }
        }
    }
}

#[test]
fn threads() {
    let tokens = tokens(70);
    for file in files() {
        let mut run = Run::new(&file, KvType::F32, 70, 1);
        let expected = step_by_step(&run, &tokens);
        for count in [1, 2, 3] {
            let counted = Counted {
                threads: Threads::new(NonZeroUsize::new(count).unwrap()).unwrap(),
                products: AtomicUsize::new(0),
            };
            for batch in [1, 64] {
                run.options.batch = batch;
                let run = Run {
                    parallel: Some(&counted),
                    ..run
                };
                let each = |at: usize, logits: &[f32]| {
                    assert!(
                        bits(logits) == expected[at],
                        "{count} threads, position {at}"
                    );
                };
                run.with_session(|mut session| session.prompt_each(&tokens, each).unwrap());
            }
            assert!(counted.products.into_inner() > 0, "nothing was spread");
        }
    }
}

#[test]
fn a_saved_prefix_goes_on_as_if_nothing_had_been() {
    let tokens = tokens(40);
    for file in files() {
        for kv in KV_TYPES {
            let run = Run::new(&file, kv, 64, 8);
            let expected = step_by_step(&run, &tokens);
            let saved = run.with_session(|mut session| {
                session.prompt(&tokens[..23]).unwrap();
                let mut saved = vec![0; session.saved_len()];
                session.save(&mut saved).unwrap();
                saved
            });
            let go_on = |session: &mut Session<'_>| {
                session.restore(&saved).unwrap();
                assert_eq!(session.position(), 23);
                assert_eq!(session.logits(), Err(SessionError::NoLogits));
                session
                    .prompt_each(&tokens[23..], |at, logits| {
                        assert!(bits(logits) == expected[23 + at], "{kv:?}, position {at}");
                    })
                    .unwrap();
            };
            run.with_session(|mut session| {
                go_on(&mut session);
                // Over something else, too.
                session.reset();
                session.prompt(&[5; 30]).unwrap();
                go_on(&mut session);
            });
            // In a larger cache.
            Run::new(&file, kv, 100, 8).with_session(|mut session| go_on(&mut session));
        }
    }
}

#[test]
fn a_prefix_is_checked() {
    let (Some(file), Some(other)) = (stories("Q8_0"), stories("Q4_0")) else {
        return;
    };
    let run = Run::new(&file, KvType::Q8, 32, 8);
    let tokens = tokens(20);
    run.with_session(|mut session| {
        session.prompt(&tokens).unwrap();
        let mut saved = vec![0; session.saved_len()];
        session.save(&mut saved).unwrap();
        let (needed, given) = (saved.len(), saved.len() - 1);
        let short = session.save(&mut saved[1..]);
        assert_eq!(short, Err(PrefixError::Length { needed, given }));
        session.save(&mut saved).unwrap();
        let before = bits(session.logits().unwrap());

        // Each hashes the whole model: the header in full, of the rest some.
        let places = || (0..40).chain((40..saved.len()).step_by(61));
        for at in places() {
            let mut bad = saved.clone();
            bad[at] ^= 1;
            assert!(session.restore(&bad).is_err(), "byte {at}");
        }
        for len in places() {
            assert!(session.restore(&saved[..len]).is_err(), "{len} bytes");
        }
        assert!(
            before == bits(session.logits().unwrap()),
            "a refused prefix changed something"
        );

        let refused = |run: Run<'_>| {
            run.with_session(|mut session| {
                let error = session.restore(&saved).unwrap_err();
                assert_eq!(session.position(), 0);
                error
            })
        };
        let of_other = refused(Run::new(&other, KvType::Q8, 32, 8));
        assert_eq!(of_other, PrefixError::Model);
        assert_eq!(
            refused(Run::new(&file, KvType::Q8Row, 32, 8)),
            PrefixError::KvType
        );
        assert_eq!(
            refused(Run::new(&file, KvType::Q8, 19, 8)),
            PrefixError::Window
        );
    });
}

#[test]
fn a_ring_is_like_a_whole_cache_until_it_wraps_and_then_the_same_for_every_batch() {
    let tokens = tokens(60);
    for file in files() {
        for kv in KV_TYPES {
            let mut run = Run::new(&file, kv, 60, 1);
            let whole = step_by_step(&run, &tokens);
            run.options.window = 24;
            run.options.ring = true;
            let expected = step_by_step(&run, &tokens);
            assert!(whole[..24] == expected[..24]);
            assert!(
                whole[24] != expected[24],
                "the oldest position is still seen"
            );
            for batch in [3, 8, 64] {
                run.options.batch = batch;
                run.with_session(|mut session| {
                    let each = |at: usize, logits: &[f32]| {
                        assert!(bits(logits) == expected[at], "{kv:?}, {batch}, {at}");
                    };
                    session.prompt_each(&tokens, each).unwrap();
                });
            }
            // Saved after it has wrapped around.
            run.with_session(|mut session| {
                session.prompt(&tokens[..41]).unwrap();
                let mut saved = vec![0; session.saved_len()];
                session.save(&mut saved).unwrap();
                session.reset();
                session.prompt(&[3; 50]).unwrap();
                session.restore(&saved).unwrap();
                let found = bits(session.prompt(&tokens[41..]).unwrap());
                assert!(found == expected[59], "{kv:?}");
                // What has been overwritten cannot be gone back to.
                assert!(!session.truncate(59));
            });
        }
    }
}

#[test]
fn a_full_cache_says_so_and_loses_nothing() {
    let Some(file) = stories("Q8_0") else { return };
    let tokens = tokens(20);
    for kv in KV_TYPES {
        let expected = step_by_step(&Run::new(&file, kv, 64, 1), &tokens);
        Run::new(&file, kv, 16, 4).with_session(|mut session| {
            let full = |needed| SessionError::ContextFull { window: 16, needed };
            assert_eq!(session.prompt(&tokens), Err(full(20)));
            assert_eq!(session.position(), 0);
            assert_eq!(
                session.prompt(&tokens[..16]).map(bits).unwrap(),
                expected[15]
            );
            assert_eq!(session.step(tokens[16]), Err(full(17)));
            assert_eq!(session.position(), 16);
            assert_eq!(session.logits().map(bits).unwrap(), expected[15]);
            assert!(session.truncate(9));
            assert_eq!(session.logits(), Err(SessionError::NoLogits));
            assert_eq!(session.step(tokens[9]).map(bits).unwrap(), expected[9]);
        });
    }
}

#[test]
fn tokens_that_do_not_exist_are_refused_before_anything_is_done() {
    let Some(file) = stories("Q8_0") else { return };
    Run::new(&file, KvType::F32, 16, 4).with_session(|mut session| {
        let error = SessionError::Token {
            id: 512,
            n_vocab: 512,
        };
        assert_eq!(session.prompt(&[1, 2, 512]), Err(error));
        assert_eq!(session.prompt(&[]), Err(SessionError::NoTokens));
        let error = SessionError::BatchTooLarge { given: 5, batch: 4 };
        assert_eq!(session.start(&[1; 5]), Err(error));
        assert_eq!(session.logits(), Err(SessionError::NoLogits));
        assert_eq!(session.position(), 0);
    });
}

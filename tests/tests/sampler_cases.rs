//! The sampler area of the shared cases, and the sampler against full-sort implementations of
//! llama2.c's and llama.cpp's rules.

use serde_json::Value;
use smidgen_core::sampler::{
    Rng, SampleError, Sampler, SamplerSettings, SettingsError, logit_bias,
};
use smidgen_tests::cases::{self, Case, Expectation};

/// What a case asks for.
fn settings(args: &Value) -> SamplerSettings {
    SamplerSettings {
        temperature: args["temperature"].as_f64().unwrap() as f32,
        top_p: args["top_p"].as_f64().unwrap() as f32,
        ..SamplerSettings::LLAMA2C
    }
}

fn logits(args: &Value) -> Vec<f32> {
    let bits = args["logits_bits"].as_array().unwrap();
    bits.iter()
        .map(|x| f32::from_bits(u32::from_str_radix(x.as_str().unwrap(), 16).unwrap()))
        .collect()
}

/// A case that holds only a seed: the first draws, or no generator.
fn check_draws(case: &Case, seed: u64) {
    let (id, facts) = (&case.id, &case.facts);
    let Some(mut rng) = Rng::new(seed) else {
        assert_eq!(case.expectation, Expectation::Reject, "{id}");
        let error = Sampler::new(SamplerSettings::LLAMA2C, seed).unwrap_err();
        assert_eq!(error, SettingsError::SeedZero);
        return;
    };
    assert_eq!(case.expectation, Expectation::Accept, "{id}");
    let u32s: Vec<u64> = (0..5).map(|_| rng.random_u32().into()).collect();
    let expected = facts["u32"].as_array().unwrap();
    assert_eq!(u32s.len(), expected.len(), "{id}");
    assert!(u32s.iter().eq(expected), "{id}: {u32s:?}");
    if let Some(f32s) = facts["f32"].as_array() {
        let mut rng = Rng::new(seed).unwrap();
        for x in f32s {
            let expected: f32 = x.as_str().unwrap().parse().unwrap();
            assert_eq!(rng.random_f32(), expected, "{id}");
        }
    }
}

#[test]
fn every_case_gets_its_verdict() {
    for case in cases::of("sampler", "sample") {
        let (id, args, facts) = (&case.id, &case.args, &case.facts);
        if let Some(seed) = args["seed"].as_str() {
            check_draws(&case, seed.parse().unwrap());
            continue;
        }
        let coin = args["coin"].as_f64().map(|x| x as f32);
        for scratch in [0, 1, 2, 100] {
            let result = settings(args).choose(
                &mut logits(args),
                &[],
                &mut vec![0; scratch],
                // Greedy cases come without one, and must not ask.
                || coin.unwrap(),
            );
            match (result, case.reason.as_deref()) {
                (Ok(token), None) => {
                    // Top-p 0 is off, as in run.c, so that coin 0 takes the first token.
                    let expected = match id.as_str() {
                        "smp_p_zero" => 0,
                        _ => facts["token"].as_u64().unwrap(),
                    };
                    assert_eq!(u64::from(token), expected, "{id}");
                }
                (Err(SampleError::Nan { .. } | SampleError::Infinite { .. }), Some("nan"))
                | (Err(SampleError::Settings(_)), Some("argument")) => {}
                (result, reason) => panic!("{id}: {result:?}, expected {reason:?}"),
            }
        }
    }
}

/// llama2.c's `sample`: divides by the temperature, sums over the vocabulary, sorts in full.
fn llama2c(logits: &[f32], temperature: f32, top_p: f32, coin: f32) -> usize {
    let mut p: Vec<f32> = logits.iter().map(|x| x / temperature).collect();
    let max = p.iter().copied().fold(f32::MIN, f32::max);
    let mut sum = 0.0;
    for x in &mut p {
        *x = (*x - max).exp();
        sum += *x;
    }
    for x in &mut p {
        *x /= sum;
    }
    if top_p <= 0.0 || top_p >= 1.0 {
        let mut cdf = 0.0;
        for (i, x) in p.iter().enumerate() {
            cdf += x;
            if coin < cdf {
                return i;
            }
        }
        return p.len() - 1;
    }
    let cutoff = (1.0 - top_p) / (p.len() - 1) as f32;
    let mut sorted: Vec<usize> = (0..p.len()).filter(|i| p[*i] >= cutoff).collect();
    sorted.sort_by(|a, b| p[*b].total_cmp(&p[*a]));
    let mut cumulative = 0.0;
    let mut last = sorted.len() - 1;
    for (n, i) in sorted.iter().enumerate() {
        cumulative += p[*i];
        if cumulative > top_p {
            last = n;
            break;
        }
    }
    let r = coin * cumulative;
    let mut cdf = 0.0;
    for i in &sorted[..=last] {
        cdf += p[*i];
        if r < cdf {
            return *i;
        }
    }
    sorted[last]
}

/// llama.cpp's chain top-k, top-p, min-p, temperature, in f64: the ids left with probabilities.
fn llama_cpp(logits: &[f32], s: &SamplerSettings) -> Vec<(usize, f64)> {
    let mut left: Vec<(usize, f64)> = logits.iter().map(|x| f64::from(*x)).enumerate().collect();
    left.sort_by(|a, b| b.1.total_cmp(&a.1));
    if s.top_k > 0 {
        left.truncate(s.top_k as usize);
    }
    let softmax = |left: &[(usize, f64)]| -> Vec<f64> {
        let weights: Vec<f64> = left.iter().map(|x| (x.1 - left[0].1).exp()).collect();
        let sum: f64 = weights.iter().sum();
        weights.iter().map(|x| x / sum).collect()
    };
    if s.top_p > 0.0 && s.top_p < 1.0 {
        let mut cumulative = 0.0;
        let p = softmax(&left);
        let cut = p.iter().position(|p| {
            cumulative += p;
            cumulative > f64::from(s.top_p)
        });
        left.truncate(cut.map_or(left.len(), |i| i + 1));
    }
    if s.min_p > 0.0 {
        let lowest = left[0].1 + f64::from(s.min_p).ln();
        left.retain(|x| x.1 >= lowest);
    }
    for x in &mut left {
        x.1 /= f64::from(s.temperature);
    }
    let p = softmax(&left);
    left.iter().zip(p).map(|(x, p)| (x.0, p)).collect()
}

/// Logits like those of a model: a few high ones, many low ones, some equal ones.
fn random_logits(rng: &mut Rng, n: usize) -> Vec<f32> {
    (0..n)
        .map(|_| {
            let x = rng.random_f32() * 2.0 - 1.0;
            let x = x * x * x * 12.0;
            if rng.random_u32().is_multiple_of(4) {
                x.round()
            } else {
                x
            }
        })
        .collect()
}

#[test]
fn llama2c_settings_choose_as_llama2c() {
    let mut rng = Rng::new(20_231_114).unwrap();
    for round in 0..1400 {
        let n = 2 + (rng.random_u32() % 600) as usize;
        let logits = random_logits(&mut rng, n);
        let temperature = [1.0, 0.8, 0.5, 1.2, 3.0][round % 5];
        let top_p = [0.9, 0.95, 0.5, 1.0, 0.0, 0.1, 0.999][round % 7];
        let coin = rng.random_f32();
        let settings = SamplerSettings {
            temperature,
            top_p,
            ..SamplerSettings::LLAMA2C
        };
        let expected = llama2c(&logits, temperature, top_p, coin);
        for scratch in [0, 1, 7, n] {
            let chosen = settings
                .choose(&mut logits.clone(), &[], &mut vec![0; scratch], || coin)
                .unwrap();
            assert_eq!(chosen as usize, expected, "round {round}");
        }
    }
}

#[test]
fn other_settings_choose_as_llama_cpp() {
    let mut rng = Rng::new(7).unwrap();
    for round in 0..240 {
        let n = 2 + (rng.random_u32() % 300) as usize;
        // All differ, or f32 and f64 might order equals differently.
        let mut logits: Vec<f32> = (0..n).map(|i| i as f32 / n as f32 * 8.0).collect();
        for i in (1..n).rev() {
            logits.swap(i, rng.random_u32() as usize % (i + 1));
        }
        let settings = SamplerSettings {
            temperature: [0.8, 0.2, 1.0, 1.5][round % 4],
            top_k: [40, 0, 5, 1, 1000][round % 5],
            top_p: [0.95, 1.0, 0.4][round % 3],
            min_p: [0.05, 0.0, 0.5, 0.01][round / 4 % 4],
            // Switches llama.cpp's order on without an effect, since nothing is recent.
            repeat_penalty: 1.1,
        };
        let mut left = llama_cpp(&logits, &settings);
        let all = settings.top_k == 0 || settings.top_k as usize >= n;
        if all && settings.top_p == 1.0 {
            // Nothing needs an order, so that ids come in theirs.
            left.sort_by_key(|x| x.0);
        }
        // Every token that is left answers to the middle of its share of the coin, and all shares
        // together are the whole: no other token can be chosen.
        let mut before = 0.0;
        for (id, p) in left {
            let coin = (before + p / 2.0) as f32;
            before += p;
            if p < 1e-5 {
                continue;
            }
            for scratch in [0, 1, 40] {
                let chosen = settings
                    .choose(&mut logits.clone(), &[], &mut vec![0; scratch], || coin)
                    .unwrap();
                assert_eq!(
                    chosen as usize, id,
                    "round {round}: {settings:?}, coin {coin}"
                );
            }
        }
        assert!((before - 1.0).abs() < 1e-9);
    }
}

#[test]
fn top_p_keeps_until_the_sum_is_more() {
    // Four equal tokens: two of them sum to one half, which is not more than that.
    for min_p in [0.0, 0.1] {
        let settings = SamplerSettings {
            top_p: 0.5,
            min_p,
            ..SamplerSettings::LLAMA2C
        };
        let chosen = [0.0, 0.3, 0.34, 0.66, 0.67, 0.99].map(|coin| {
            settings
                .choose(&mut [2.0; 4], &[], &mut [], || coin)
                .unwrap()
        });
        assert_eq!(chosen, [0, 0, 1, 1, 2, 2]);
    }
}

#[test]
fn the_end_of_the_sum_belongs_to_the_last_token_that_is_allowed() {
    // Where rounding has the probabilities sum to less than the coin, as a coin of 1 does always.
    for min_p in [0.0, 0.1] {
        let settings = SamplerSettings {
            top_p: 1.0,
            min_p,
            ..SamplerSettings::LLAMA2C
        };
        let mut logits = [0.0, 0.0, 0.0, f32::NEG_INFINITY];
        assert_eq!(settings.choose(&mut logits, &[], &mut [], || 1.0), Ok(2));
    }
}

#[test]
fn a_tiny_top_p_keeps_the_likeliest() {
    let settings = SamplerSettings {
        top_p: 1e-6,
        ..SamplerSettings::LLAMA2C
    };
    let mut logits = [0.5, 0.5, 1.0, 1.0];
    assert_eq!(settings.choose(&mut logits, &[], &mut [], || 0.99), Ok(2));
}

#[test]
fn the_penalty_changes_the_greedy_choice() {
    let settings = SamplerSettings {
        repeat_penalty: 1.5,
        ..SamplerSettings::GREEDY
    };
    let choose = |logits: &[f32], recent: &[u32]| {
        settings.choose(&mut logits.to_vec(), recent, &mut [], || unreachable!())
    };
    assert_eq!(choose(&[3.0, 2.5, 1.0], &[]), Ok(0));
    assert_eq!(choose(&[3.0, 2.5, 1.0], &[0, 0]), Ok(1));
    assert_eq!(choose(&[-1.0, -1.2, -5.0], &[0]), Ok(1));
}

#[test]
fn what_cannot_be_compared_is_named() {
    let greedy = |logits: &[f32]| {
        SamplerSettings::GREEDY.choose(&mut logits.to_vec(), &[], &mut [], || unreachable!())
    };
    let (nan, inf) = (f32::NAN, f32::INFINITY);
    assert_eq!(
        greedy(&[1.0, 3.0, nan, 5.0]),
        Err(SampleError::Nan { id: 2 })
    );
    assert_eq!(greedy(&[inf, -nan]), Err(SampleError::Nan { id: 1 }));
    let (first, second) = (1, 3);
    assert_eq!(
        greedy(&[2.0, inf, 1.0, inf]),
        Err(SampleError::Infinite { first, second })
    );
}

#[test]
fn forbidden_tokens_are_never_chosen() {
    let mut sampler = Sampler::new(SamplerSettings::default(), 3).unwrap();
    let mut plain = Sampler::new(SamplerSettings::LLAMA2C, 3).unwrap();
    for _ in 0..500 {
        for sampler in [&mut sampler, &mut plain] {
            let chosen = sampler.sample_masked(&mut [1.0; 8], &[], &mut [], &mut |logits| {
                logit_bias(
                    logits,
                    &[0, 2, 3, 4, 6, 7].map(|id| (id, f32::NEG_INFINITY)),
                );
            });
            assert!(matches!(chosen, Ok(1 | 5)), "{chosen:?}");
        }
    }
    let forbidden = plain.sample(&mut [f32::NEG_INFINITY; 3], &[], &mut []);
    assert_eq!(forbidden, Err(SampleError::AllForbidden));
    assert_eq!(plain.sample(&mut [], &[], &mut []), Err(SampleError::Empty));
}

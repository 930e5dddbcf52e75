//! The plan for programs.

use serde_json::{Value as Json, json};
use smidgen_plan::{Part, Place};

use super::{Advice, Planned};

pub(super) fn of(planned: &Planned<'_>) -> Json {
    let part = |part: &Part| json!({"name": part.kind.name(), "bytes": part.bytes});
    let place = |place: &Place| {
        json!({
            "name": place.region.name,
            "origin": place.region.origin,
            "bytes": place.region.len,
            "used": place.used(),
            "free": place.free(),
            "parts": place.parts.iter().map(part).collect::<Vec<_>>(),
        })
    };
    let places = &planned.placement.places;
    let advice = |advice: &Advice| json!({"change": advice.change, "words": advice.words});
    json!({
        "schema": 1,
        "model": planned.model,
        "model_bytes": planned.model_bytes,
        "board": planned.board.map(|board| board.name),
        "fits": planned.placement.fits(),
        "kv": planned.options.kv.name(),
        "window": planned.options.window,
        "ring": planned.options.ring,
        "context": planned.n_ctx,
        "largest_window": planned.largest_window,
        "regions": places.iter().map(place).collect::<Vec<_>>(),
        "advice": planned.advice.iter().map(advice).collect::<Vec<_>>(),
    })
}

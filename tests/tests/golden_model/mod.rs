//! The golden models, for tests of commands.
#![allow(dead_code)] // Each test uses a part of it.

use serde_json::Value;
use smidgen_tests::shared;

/// stories260K as llama.cpp converts and quantizes it, if there.
pub(crate) fn model(ty: &str) -> Option<String> {
    let name = format!("golden/stories260K/gguf/stories260K-{ty}.gguf");
    let path = shared()?.join(name).canonicalize().unwrap();
    Some(path.to_str().unwrap().to_owned())
}

/// What is known of it.
pub(crate) fn golden(name: &str) -> Value {
    let path = shared().unwrap().join("golden/stories260K").join(name);
    serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap()
}

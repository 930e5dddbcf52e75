//! For the build scripts of firmware: links the GGUF file that `SMIDGEN_MODEL` names, and sizes the
//! memory of a session for it by the same plan that the firmware checks it with.
//!
//! | variable | meaning | default |
//! |---|---|---|
//! | `SMIDGEN_MODEL` | the GGUF file | none |
//! | `SMIDGEN_KV` | how keys and values are stored: `f32`, `f16`, `q8`, `q8row` | `q8` |
//! | `SMIDGEN_WINDOW` | positions that are kept | 256, or the model's context if that is less |
//! | `SMIDGEN_RING` | `1`: the oldest position makes room when all are taken | not |

use std::env;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use smidgen_core::gguf::Gguf;
use smidgen_core::kv_cache::KvType;
use smidgen_core::model::{Layer, Model};
use smidgen_core::session::{Plan, SessionOptions};
use smidgen_core::tokenizer::Vocabulary;

/// The longest command line, in bytes.
const LINE: usize = 320;

/// Tokens of a prompt.
const IDS: usize = 130;

/// Words to encode a prompt of 128 characters, with the space that comes before it.
const SCRATCH: usize = 5 * 129;

/// Writes `model.rs` to the folder for generated code: the model as `LINKED`, its buffers as
/// `memory()`. `ram` is how much RAM there is, and `stack` how much of it must be left.
///
/// # Panics
/// With the cause, so that the build fails, if there is no model or the options make no sense.
pub fn link(ram: usize, stack: usize) {
    match generate(ram, stack) {
        Ok(code) => {
            write("model.rs", &code);
        }
        Err(cause) => {
            println!("cargo::error={cause}");
        }
    }
}

/// Writes the linker scripts for cortex-m-rt: `regions` are name, origin and length, `FLASH` and
/// `RAM` among them. A region `MODEL` is where the model goes; without one, it goes to `FLASH`.
///
/// # Panics
/// The scripts cannot be written.
pub fn cortex_m_memory(regions: &[(&str, usize, usize)]) {
    let mut memory = "MEMORY\n{\n".to_owned();
    for (name, origin, len) in regions {
        memory += &format!("  {name} : ORIGIN = {origin:#x}, LENGTH = {len:#x}\n");
    }
    memory += "}\n";
    script("memory.x", &memory);
    let has_own = regions.iter().any(|(name, _, _)| *name == "MODEL");
    place_model(if has_own { "MODEL" } else { "FLASH" });
    println!("cargo::rustc-link-arg-bins=-Tlink.x");
}

/// Places the model behind the constants, in `region` of the memory map. To be called before other
/// linker scripts are named.
///
/// # Panics
/// The script cannot be written.
pub fn place_model(region: &str) {
    let section = format!(".model : ALIGN(64) {{ KEEP(*(.model)); }} > {region}");
    script(
        "model.x",
        &format!("SECTIONS {{ {section} }}\nINSERT AFTER .rodata;\n"),
    );
    println!("cargo::rustc-link-arg-bins=-Tmodel.x");
}

/// Writes a linker script to where the linker looks for it.
///
/// # Panics
/// It cannot be written.
pub fn script(name: &str, text: &str) {
    write(name, text);
    println!("cargo::rustc-link-search={}", out_dir().display());
}

fn write(name: &str, text: &str) {
    fs::write(out_dir().join(name), text).unwrap_or_else(|e| panic!("cannot write {name}: {e}"));
}

fn out_dir() -> PathBuf {
    PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets OUT_DIR"))
}

fn variable(name: &str) -> Option<String> {
    println!("cargo::rerun-if-env-changed={name}");
    env::var(name).ok().filter(|value| !value.is_empty())
}

fn generate(ram: usize, stack: usize) -> Result<String, String> {
    let path = variable("SMIDGEN_MODEL").ok_or(
        "SMIDGEN_MODEL names no GGUF file (`cargo xtask run --board … --model …` sets it)",
    )?;
    let path = fs::canonicalize(&path).map_err(|e| format!("{path}: {e}"))?;
    println!("cargo::rerun-if-changed={}", path.display());
    let bytes = fs::read(&path).map_err(|e| format!("{}: {e}", path.display()))?;
    let kv = match variable("SMIDGEN_KV").as_deref() {
        None | Some("q8") => ("Q8", KvType::Q8),
        Some("q8row") => ("Q8Row", KvType::Q8Row),
        Some("f16") => ("F16", KvType::F16),
        Some("f32") => ("F32", KvType::F32),
        Some(other) => return Err(format!("SMIDGEN_KV={other}: not f32, f16, q8 or q8row")),
    };
    let window = match variable("SMIDGEN_WINDOW") {
        None => None,
        Some(text) => Some(
            text.parse()
                .map_err(|e| format!("SMIDGEN_WINDOW={text}: {e}"))?,
        ),
    };
    let ring = variable("SMIDGEN_RING").as_deref() == Some("1");
    let sizes = match Sizes::of(&bytes, kv.1, window, ring) {
        Ok(sizes) => sizes,
        // The firmware says so when it runs; here it need not be a model.
        Err(cause) => {
            println!("cargo::warning={}: {cause}", path.display());
            Sizes::none(kv.1, window.unwrap_or(1), ring)
        }
    };
    Ok(sizes.code(&path, &bytes, kv.0, ram, stack))
}

/// Lengths of all buffers.
struct Sizes {
    plan: Option<Plan>,
    options: SessionOptions,
    layers: usize,
    index: usize,
}

impl Sizes {
    fn none(kv: KvType, window: usize, ring: bool) -> Self {
        Self {
            plan: None,
            options: SessionOptions {
                kv,
                window,
                ring,
                batch: 1,
            },
            layers: 0,
            index: 0,
        }
    }

    fn of(bytes: &[u8], kv: KvType, window: Option<usize>, ring: bool) -> Result<Self, String> {
        let gguf = Gguf::parse_small(bytes).map_err(|e| e.to_string())?;
        let mut layers = vec![Layer::EMPTY; Model::layers_len(&gguf)];
        let model = Model::load(&[gguf], &mut layers).map_err(|e| e.to_string())?;
        let n_ctx = model.hyperparameters.n_ctx;
        let none = Self::none(kv, window.unwrap_or(n_ctx.min(256)), ring);
        Ok(Self {
            plan: Some(Plan::new(&model, &none.options)),
            layers: model.layers.len(),
            index: Vocabulary::index_len(&gguf),
            ..none
        })
    }

    fn code(&self, path: &Path, bytes: &[u8], kv: &str, ram: usize, stack: usize) -> String {
        let SessionOptions { window, ring, .. } = self.options;
        let Self { layers, index, .. } = self;
        let plan = self.plan.as_ref();
        let of = |part: fn(&Plan) -> usize| plan.map_or(0, part);
        let (floats, q8, q8k) = (of(|p| p.floats), of(|p| p.q8), of(|p| p.q8k));
        let (ints, steps) = (of(|p| p.ints), of(|p| p.steps));
        let (elements, scales) = (of(|p| p.kv_elements), of(|p| p.kv_scales));
        let kv_memory = match self.options.kv {
            KvType::F32 => format!("KvF32<{elements}>"),
            KvType::F16 => format!("KvF16<{elements}>"),
            KvType::Q8 | KvType::Q8Row => format!("KvQ8<{elements}, {scales}>"),
        };
        let checksum = bytes.iter().fold(0xcbf2_9ce4_8422_2325_u64, |hash, &byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3)
        });
        let len = bytes.len();
        let mut code = String::new();
        writeln!(
            code,
            "use smidgen_firmware as firmware;

type Work = firmware::Work<{floats}, {q8}, {q8k}, {ints}, {steps}, {index}, {SCRATCH}, {IDS}, {LINE}>;
type Kv = firmware::{kv_memory};

// A section of its own, so that it can be placed and counted.
#[unsafe(link_section = \".model\")]
static MODEL: firmware::Aligned<{len}> = firmware::Aligned(*include_bytes!({path:?}));
static SMIDGEN_WORK: firmware::ConstStaticCell<Work> = firmware::ConstStaticCell::new(Work::ZERO);
static SMIDGEN_KV: firmware::ConstStaticCell<Kv> = firmware::ConstStaticCell::new(Kv::ZERO);

/// The model.
pub(crate) static LINKED: firmware::Linked = firmware::Linked {{
    model: &MODEL.0,
    checksum: {checksum:#x},
    options: firmware::SessionOptions {{
        kv: firmware::KvType::{kv},
        window: {window},
        ring: {ring},
        batch: 1,
    }},
}};

/// Places for the model's layers.
pub(crate) const LAYERS: usize = {layers};

const _: () = assert!(
    size_of::<Work>() + size_of::<Kv>() + {stack} <= {ram},
    \"the KV cache, the activations and a stack of {stack} bytes do not fit into {ram} bytes of RAM: \\
     take a smaller SMIDGEN_WINDOW or another SMIDGEN_KV\"
);

/// The memory for it; to be called once.
pub(crate) fn memory<'l>(layers: &'l mut [firmware::Layer<'static>]) -> firmware::Memory<'l> {{
    SMIDGEN_WORK.take().with(SMIDGEN_KV.take().buffers(), layers)
}}"
        )
        .expect("a string takes any text");
        code
    }
}

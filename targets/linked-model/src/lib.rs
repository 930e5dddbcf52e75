//! For the build scripts of firmware: writes the memory map of a board by its row in the table of
//! `smidgen-plan`, links the GGUF file that `SMIDGEN_MODEL` names, and sizes the memory of a session
//! for it by the same plan that the firmware checks it with.
//!
//! | variable | meaning | default |
//! |---|---|---|
//! | `SMIDGEN_MODEL` | the GGUF file | none |
//! | `SMIDGEN_KV` | how keys and values are stored: `f32`, `f16`, `q8`, `q8row` | the board's |
//! | `SMIDGEN_WINDOW` | positions that are kept | the board's, or the model's context if that is less |
//! | `SMIDGEN_RING` | `1`: the oldest position makes room when all are taken; `0`: not | the board's |

use std::env;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use smidgen_core::kv_cache::KvType;
use smidgen_core::model::ModelError;
use smidgen_core::session::{Plan, SessionOptions};
use smidgen_plan::{Board, Footprint, FootprintError, Region};

/// The row of the table of boards with this name.
///
/// # Panics
/// There is none.
#[must_use]
pub fn board(name: &str) -> &'static Board {
    smidgen_plan::find(name).unwrap_or_else(|| panic!("the table has no board {name}"))
}

/// Writes `model.rs` to the folder for generated code: the model as `LINKED`, its buffers as
/// `memory()`. Code that does not fit the board does not compile.
pub fn link(board: &Board) {
    match generate(board) {
        Ok(code) => {
            write("model.rs", &code);
        }
        Err(cause) => {
            println!("cargo::error={cause}");
        }
    }
}

/// More is not taken of what a board has: start-up fills it with zeros.
const MOST_RAM: u64 = 32 << 20;

/// Writes `apart.rs` to the folder for generated code, for a model that is flashed apart from the
/// firmware: where it lies as `region()`, and RAM for a model of so many layers as `memory()`: what
/// the board has, without variables, stack and `other` bytes.
///
/// # Panics
/// It cannot be written, or there is no RAM left.
pub fn flashed_apart(board: &Board, layers: usize, other: u64) {
    let memory = &board.memory;
    let Region { origin, len, .. } = memory.model;
    let of_layers = (layers * Footprint::layer_bytes(memory)) as u64;
    let taken = memory.stack_bytes + memory.variable_bytes + of_layers + other;
    let left = memory
        .ram
        .len
        .checked_sub(taken)
        .expect("there is RAM left");
    let words = left.min(MOST_RAM) / 8;
    let code = format!(
        "use smidgen_core::model::Layer;

/// RAM for a model; to be called once.
#[inline(never)] // A frame of its own: boards have little stack.
fn memory() -> smidgen_console::Memory<'static> {{
    static SMIDGEN_WORK: static_cell::ConstStaticCell<[u64; {words}]> =
        static_cell::ConstStaticCell::new([0; {words}]);
    static SMIDGEN_LAYERS: static_cell::StaticCell<[Layer<'static>; {layers}]> =
        static_cell::StaticCell::new();
    smidgen_console::Memory {{
        layers: SMIDGEN_LAYERS.init_with(|| [Layer::EMPTY; {layers}]),
        words: SMIDGEN_WORK.take(),
    }}
}}

/// Where the model's image is.
fn region() -> &'static [u8] {{
    // SAFETY: flash, or RAM that is mapped: it can be read, whatever it holds, and nothing writes
    // it while this program runs.
    unsafe {{ core::slice::from_raw_parts(core::ptr::without_provenance({origin:#x}), {len:#x}) }}
}}
"
    );
    write("apart.rs", &code);
}

/// Writes the linker scripts for cortex-m-rt.
///
/// # Panics
/// They cannot be written.
pub fn cortex_m_memory(board: &Board) {
    let memory = &board.memory;
    let mut regions = vec![("FLASH", memory.code), ("RAM", memory.ram)];
    let has_own = memory.model != memory.code;
    if has_own {
        regions.push(("MODEL", memory.model));
    }
    let mut script_text = "MEMORY\n{\n".to_owned();
    for (name, region) in regions {
        let (origin, len) = (region.origin, region.len);
        script_text += &format!("  {name} : ORIGIN = {origin:#x}, LENGTH = {len:#x}\n");
    }
    script_text += "}\n";
    script("memory.x", &script_text);
    place_model(if has_own { "MODEL" } else { "FLASH" });
    println!("cargo::rustc-link-arg-bins=-Tlink.x");
    // Functions with the same code are one: no one compares their addresses.
    println!("cargo::rustc-link-arg-bins=--icf=all");
}

/// Writes what cortex-m-rt includes for the interrupts of a chip: here there are none, and the
/// feature `no-interrupts` of the firmware makes the vectors for that.
///
/// # Panics
/// It cannot be written.
pub fn no_interrupts() {
    write("device.x", "");
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

/// Writes a file to the folder for generated code.
///
/// # Panics
/// It cannot be written.
pub fn write(name: &str, text: &str) {
    fs::write(out_dir().join(name), text).unwrap_or_else(|e| panic!("cannot write {name}: {e}"));
}

fn out_dir() -> PathBuf {
    PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets OUT_DIR"))
}

fn variable(name: &str) -> Option<String> {
    println!("cargo::rerun-if-env-changed={name}");
    env::var(name).ok().filter(|value| !value.is_empty())
}

fn generate(board: &Board) -> Result<String, String> {
    let path = variable("SMIDGEN_MODEL").ok_or(
        "SMIDGEN_MODEL names no GGUF file (`cargo xtask run --board … --model …` sets it)",
    )?;
    let path = fs::canonicalize(&path).map_err(|e| format!("{path}: {e}"))?;
    println!("cargo::rerun-if-changed={}", path.display());
    let bytes = fs::read(&path).map_err(|e| format!("{}: {e}", path.display()))?;
    let mut options = board.options;
    if let Some(name) = variable("SMIDGEN_KV") {
        let unknown = || format!("SMIDGEN_KV={name}: not f32, f16, q8 or q8row");
        options.kv = KvType::from_name(&name).ok_or_else(unknown)?;
    }
    let window = match variable("SMIDGEN_WINDOW") {
        None => None,
        Some(text) => Some(
            text.parse()
                .map_err(|e| format!("SMIDGEN_WINDOW={text}: {e}"))?,
        ),
    };
    match variable("SMIDGEN_RING").as_deref() {
        None => {}
        Some("0") => options.ring = false,
        Some("1") => options.ring = true,
        Some(other) => return Err(format!("SMIDGEN_RING={other}: not 0 or 1")),
    }
    let footprint = Footprint::of_file(&bytes, &board.memory, options, window);
    let footprint = match footprint {
        Ok(footprint) => footprint,
        // Whoever chose the types can choose others, now.
        Err(cause @ FootprintError::Model(ModelError::NotBuiltIn { .. })) => {
            return Err(format!("{}: {cause}", path.display()));
        }
        Err(cause) => {
            // The firmware says so when it runs; here it need not be a model.
            println!("cargo::warning={}: {cause}", path.display());
            let window = window.unwrap_or(1);
            Footprint::empty(SessionOptions { window, ..options })
        }
    };
    Ok(code(board, &footprint, &path, &bytes))
}

/// The generated code.
fn code(board: &Board, footprint: &Footprint, path: &Path, bytes: &[u8]) -> String {
    let memory = &board.memory;
    let SessionOptions {
        kv,
        window,
        ring,
        batch,
    } = footprint.options;
    let plan = footprint.plan.as_ref();
    let of = |part: fn(&Plan) -> usize| plan.map_or(0, part);
    let (floats, q8, q8k) = (of(|p| p.floats), of(|p| p.q8), of(|p| p.q8k));
    let (ints, steps) = (of(|p| p.ints), of(|p| p.steps));
    let (elements, scales) = (of(|p| p.kv_elements), of(|p| p.kv_scales));
    let kv_memory = match kv {
        KvType::F32 => format!("KvF32<{elements}>"),
        KvType::F16 => format!("KvF16<{elements}>"),
        KvType::Q8 | KvType::Q8Row => format!("KvQ8<{elements}, {scales}>"),
    };
    let checksum = bytes.iter().fold(0xcbf2_9ce4_8422_2325_u64, |hash, &byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3)
    });
    let len = bytes.len();
    let Footprint { layers, index, .. } = footprint;
    let (scratch, ids) = (Footprint::scratch(memory), Footprint::ids(memory));
    let line = Footprint::line(memory);
    let (work_bytes, kv_bytes) = (footprint.work_bytes(memory), footprint.kv_bytes());
    let layer_bytes = Footprint::layer_bytes(memory);
    let (stack, variables) = (memory.stack_bytes, footprint.variable_bytes(memory));
    let ram = memory.ram.len;
    let new_session = if memory.has_logits {
        "with_logits"
    } else {
        "without_logits"
    };
    let mut code = String::new();
    writeln!(
        code,
        "use smidgen_firmware as firmware;

type Work = firmware::Work<{floats}, {q8}, {q8k}, {ints}, {steps}, {index}, {scratch}, {ids}, {line}>;
type Kv = firmware::{kv_memory};
type Cell<T> = firmware::ConstStaticCell<T>;

// A section of its own, so that it can be placed and counted.
#[unsafe(link_section = \".model\")]
static MODEL: firmware::Aligned<{len}> = firmware::Aligned(*include_bytes!({path:?}));
static SMIDGEN_WORK: Cell<Work> = Cell::new(Work::ZERO);
static SMIDGEN_KV: Cell<Kv> = Cell::new(Kv::ZERO);
static SMIDGEN_LAYERS: firmware::StaticCell<[firmware::Layer<'static>; {layers}]> =
    firmware::StaticCell::new();

/// The model.
pub(crate) static LINKED: firmware::Linked = firmware::Linked {{
    model: &MODEL.0,
    checksum: {checksum:#x},
    options: firmware::SessionOptions {{
        kv: firmware::KvType::{kv:?},
        window: {window},
        ring: {ring},
        batch: {batch},
    }},
    new_session: firmware::{new_session},
}};

// What `smidgen plan` says is what there is.
const _: () = assert!(size_of::<Cell<Work>>() == {work_bytes}, \"not the planned buffers\");
const _: () = assert!(size_of::<Cell<Kv>>() == {kv_bytes}, \"not the planned KV cache\");
const _: () = assert!(size_of::<firmware::Layer<'_>>() == {layer_bytes}, \"not the planned layer\");

#[allow(clippy::assertions_on_constants)] // True, or the build ends here.
const _: () = assert!(
    {kv_bytes} + {work_bytes} + {variables} + {stack} <= {ram},
    \"the KV cache, the activations and a stack of {stack} bytes do not fit into {ram} bytes of RAM: \\
     take a smaller SMIDGEN_WINDOW or another SMIDGEN_KV\"
);

/// The memory for it; to be called once.
#[inline(never)] // A frame of its own: boards have little stack.
pub(crate) fn memory() -> &'static mut firmware::Memory {{
    static MEMORY: firmware::StaticCell<firmware::Memory> = firmware::StaticCell::new();
    let layers = SMIDGEN_LAYERS.init_with(|| [firmware::Layer::EMPTY; {layers}]);
    MEMORY.init_with(|| SMIDGEN_WORK.take().with(SMIDGEN_KV.take().buffers(), layers))
}}"
    )
    .expect("a string takes any text");
    code
}

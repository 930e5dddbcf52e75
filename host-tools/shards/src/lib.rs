//! Split GGUF files into shards and merge them, without ever losing one.
//!
//! A split model is a set of files `PREFIX-00001-of-00012.gguf`. The first has all metadata, all
//! have some of the tensors and three keys: `split.no` (from 0), `split.count` and
//! `split.tensors.count` (of the whole set). This is the form that llama.cpp reads and writes.
//!
//! ```
//! use smidgen_core::gguf::GgmlType;
//! use smidgen_io::{GgufBuilder, Overwrite};
//! use smidgen_shards::{Limit, MergeOptions, MergePlan, SplitOptions, SplitPlan};
//!
//! let folder = tempfile::tempdir().unwrap();
//! let model = folder.path().join("model.gguf");
//! let mut builder = GgufBuilder::new();
//! for name in ["a", "b", "c"] {
//!     builder.tensor(name, &[8], GgmlType::F32, &[1; 32][..])?;
//! }
//! builder.write_file(&model, Overwrite::Refuse)?;
//!
//! let two = Limit::Tensors(2.try_into().unwrap());
//! let options = SplitOptions { limit: two, ..SplitOptions::default() };
//! let plan = SplitPlan::new(&model, folder.path().join("small"), &options)?;
//! assert_eq!(plan.shards().len(), 2);
//! plan.write(&mut |_, _| {})?;
//!
//! let first = folder.path().join("small-00001-of-00002.gguf");
//! let merged = folder.path().join("merged.gguf");
//! let plan = MergePlan::new(first, &merged, MergeOptions::default(), Overwrite::Refuse)?;
//! plan.write(&mut |_, _| {})?;
//! assert_eq!(std::fs::read(merged).unwrap(), std::fs::read(model).unwrap());
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod disk;
mod error;
mod fault;
mod head;
mod journal;
mod limit;
mod merge;
mod merge_deleting;
mod part;
mod set;
mod split;
#[cfg(all(test, unix))]
mod stop_tests;
mod transfer;

pub use error::{Error, JournalFault};
pub use fault::{Fault, FaultKind};
pub use limit::{Limit, Size, SizeError};
pub use merge::{MergeOptions, MergePlan};
pub use merge_deleting::{Merged, is_unfinished, merge_deleting};
pub use set::{Shard, ShardSet};
pub use split::{PlannedShard, SplitOptions, SplitPlan};

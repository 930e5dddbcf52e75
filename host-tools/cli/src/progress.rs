//! A bar for work that takes long; seen only where standard error is a terminal.

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

/// A bar that counts bytes. It goes away with this value.
#[derive(Debug)]
pub(crate) struct Bar(ProgressBar);

impl Bar {
    pub(crate) fn new() -> Self {
        // Hidden by itself where there is no terminal.
        let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr());
        let style = ProgressStyle::with_template(
            "{bar:30} {percent:>3} %  {binary_bytes}/{binary_total_bytes}  \
             {binary_bytes_per_sec}  {eta} left",
        );
        if let Ok(style) = style {
            bar.set_style(style.progress_chars("##-"));
        }
        Self(bar)
    }

    /// So many bytes of so many are done.
    pub(crate) fn set(&self, done: u64, total: u64) {
        self.0.set_length(total);
        self.0.set_position(done);
    }
}

impl Drop for Bar {
    fn drop(&mut self) {
        self.0.finish_and_clear();
    }
}

//! Files for Smidgen: map or read, write whole or not at all, build GGUF.

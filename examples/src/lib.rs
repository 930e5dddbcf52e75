//! Small programs to read and copy.

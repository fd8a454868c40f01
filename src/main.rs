//! The program: parse, dispatch, turn an error into an exit code.

fn main() {}

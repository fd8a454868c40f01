//! Figures in files.
//!
//! Apart because every bench writes them, and most can read them again to print tables and plots.

use std::fs;
use std::path::Path;

use serde::Serialize;
use serde::de::DeserializeOwned;

/// Figures of an earlier run.
pub fn read<T: DeserializeOwned>(path: &Path) -> T {
    let text = fs::read_to_string(path).expect("read the figures");
    serde_json::from_str(&text).expect("figures of this bench")
}

/// Writes them over what is there.
pub fn write<T: Serialize>(report: &T, path: &Path) {
    let text = serde_json::to_string_pretty(report).unwrap();
    fs::write(path, text + "\n").expect("write the figures");
}

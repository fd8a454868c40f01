//! The command line before it is parsed.
//!
//! Apart because it may be one that was written for kube-proxy, which has no commands.

use std::ffi::OsString;

/// The command line as clap expects it: `run` where it goes without saying, and `-` for `_` in
/// the names of flags, both as kube-proxy has them.
pub fn normalize(args: impl IntoIterator<Item = OsString>) -> Vec<OsString> {
    let mut args = args.into_iter();
    let program = args.next().unwrap_or_else(|| "deltaproxy".into());
    let mut rest: Vec<OsString> = args.map(dashes).collect();
    let is_called_kube_proxy = std::path::Path::new(&program)
        .file_name()
        .is_some_and(|name| name == "kube-proxy");
    let first = rest
        .first()
        .and_then(|arg| arg.to_str())
        .unwrap_or_default();
    let is_flag = first.starts_with('-');
    let is_about_program = matches!(first, "-h" | "--help" | "-V" | "--version");
    if (is_called_kube_proxy && rest.is_empty()) || (is_flag && !is_about_program) {
        rest.insert(0, "run".into());
    }
    rest.insert(0, program);
    rest
}

fn dashes(arg: OsString) -> OsString {
    let Some(flag) = arg.to_str().and_then(|text| text.strip_prefix("--")) else {
        return arg;
    };
    let (name, value) = flag
        .split_once('=')
        .map_or((flag, None), |(n, v)| (n, Some(v)));
    let name = name.replace('_', "-");
    match value {
        Some(value) => format!("--{name}={value}").into(),
        None => format!("--{name}").into(),
    }
}

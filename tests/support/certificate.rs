//! Certificates of servers that a test starts.

use std::path::Path;
use std::process::Command;

use super::has_program;

/// Writes a certificate called `name`, for `localhost` and 127.0.0.1, that signs itself to
/// `NAME.pem`, and its key to `NAME.key`. Returns `false` on a machine without openssl that need
/// not have it.
pub fn self_signed(folder: &Path, name: &str) -> bool {
    if !has_program("openssl") {
        return false;
    }
    let made = Command::new("openssl")
        .args(["req", "-x509", "-newkey", "ec", "-pkeyopt"])
        .args(["ec_paramgen_curve:prime256v1", "-nodes", "-days", "2"])
        .args(["-subj", &format!("/CN={name}")])
        .args(["-addext", "subjectAltName=IP:127.0.0.1,DNS:localhost"])
        .arg("-keyout")
        .arg(folder.join(format!("{name}.key")))
        .arg("-out")
        .arg(folder.join(format!("{name}.pem")))
        .output();
    let made = made.expect("run openssl");
    assert!(made.status.success(), "{made:?}");
    true
}

/// Use of a certificate that [`signed`] writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Usage {
    /// Authenticates a user with the name of the certificate.
    Client,
    /// Authenticates a server at `localhost` or 127.0.0.1.
    Server,
}

impl Usage {
    /// Returns the extensions, as a file of openssl.
    fn extensions(self) -> &'static str {
        match self {
            Self::Client => "basicConstraints=CA:FALSE\nextendedKeyUsage=clientAuth\n",
            Self::Server => {
                "basicConstraints=CA:FALSE\nextendedKeyUsage=serverAuth\n\
                 subjectAltName=IP:127.0.0.1,DNS:localhost\n"
            }
        }
    }
}

/// Writes a certificate called `name`, signed by the certificate `authority` of [`self_signed`], to
/// `NAME.pem`, and its key to `NAME.key`.
pub fn signed(folder: &Path, authority: &str, name: &str, usage: Usage) {
    let file = |name: &str, ending: &str| folder.join(format!("{name}.{ending}"));
    let made = |command: &mut Command| {
        let output = command.output().expect("openssl is there");
        assert!(output.status.success(), "{output:?}");
    };
    let mut request = Command::new("openssl");
    request.args(["req", "-newkey", "ec", "-pkeyopt"]);
    request.args(["ec_paramgen_curve:prime256v1", "-nodes", "-subj"]);
    request.arg(format!("/CN={name}"));
    request.arg("-keyout").arg(file(name, "key"));
    made(request.arg("-out").arg(file(name, "csr")));
    let extensions = file(name, "extensions");
    std::fs::write(&extensions, usage.extensions()).expect("a folder of the test");
    let mut sign = Command::new("openssl");
    sign.args(["x509", "-req", "-days", "2", "-CAcreateserial"]);
    sign.arg("-CA").arg(file(authority, "pem"));
    sign.arg("-CAkey").arg(file(authority, "key"));
    sign.arg("-extfile").arg(&extensions);
    sign.arg("-in").arg(file(name, "csr"));
    made(sign.arg("-out").arg(file(name, "pem")));
}

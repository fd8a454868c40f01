//! What `services` lists, and how.
//!
//! Apart from [`OriginArgs`], which says whose rules are read, because this is about what is shown
//! of them.

use std::net::{IpAddr, SocketAddr};
use std::str::FromStr;

use clap::{Args, ValueEnum};

use super::{AskedArgs, NamesArgs, OriginArgs};
use crate::config::duration::GoDuration;
use crate::net::Port;

/// Flags of `services`.
#[derive(Debug, Clone, Args)]
pub struct ServicesArgs {
    /// Which Services.
    #[command(flatten)]
    pub which: AskedArgs,
    /// Only what is reached at, or answered from, this address: `10.96.0.10`, `[fd00::1]:53`;
    /// `:30080` is any
    #[arg(long, value_name = "[IP][:PORT]")]
    pub address: Option<AddressPattern>,
    /// How to show them
    #[arg(
        short,
        long,
        value_name = "FORMAT",
        value_enum,
        default_value = "table"
    )]
    pub output: ServicesOutput,
    /// Leave out the table's first line
    #[arg(long)]
    pub no_headers: bool,
    /// Go on with what changes, until the reader has enough
    #[arg(short, long, conflicts_with = "from_save")]
    pub watch: bool,
    /// With --watch: how often to look
    #[arg(long, value_name = "DURATION", default_value = "2s")]
    pub interval: GoDuration,
    /// Only names.
    #[command(flatten)]
    pub names: NamesArgs,
    /// Which rules.
    #[command(flatten)]
    pub origin: OriginArgs,
}

/// `--output` of `services`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum ServicesOutput {
    /// A line for each service port
    Table,
    /// The same with addresses of endpoints, affinity and more
    Wide,
    /// Everything, for programs
    Json,
    /// The same for readers
    Yaml,
}

/// An address, a port, or both.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AddressPattern {
    /// Any, if it is not said.
    pub ip: Option<IpAddr>,
    /// Any, if it is not said.
    pub port: Option<u16>,
}

/// A text that is no address.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is no address; use `10.96.0.10`, `10.96.0.10:53`, `[fd00::1]:53` or `:30080`")]
pub struct NoAddress(String);

impl FromStr for AddressPattern {
    type Err = NoAddress;

    fn from_str(text: &str) -> Result<Self, NoAddress> {
        let no_address = || NoAddress(text.to_owned());
        if let Some(port) = text.strip_prefix(':').filter(|rest| !rest.contains(':')) {
            let port: Port = port.parse().map_err(|_| no_address())?;
            return Ok(Self {
                ip: None,
                port: Some(port.get()),
            });
        }
        if let Ok(socket) = text.parse::<SocketAddr>() {
            return Ok(Self {
                ip: Some(socket.ip().to_canonical()),
                port: Some(socket.port()),
            });
        }
        let bare = text
            .strip_prefix('[')
            .and_then(|rest| rest.strip_suffix(']'))
            .unwrap_or(text);
        let ip: IpAddr = bare.parse().map_err(|_| no_address())?;
        Ok(Self {
            ip: Some(ip.to_canonical()),
            port: None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check<T: FromStr<Err: std::fmt::Debug>>(good: &[&str], bad: &[&str]) {
        for text in good {
            assert!(text.parse::<T>().is_ok(), "{text}");
        }
        for text in bad {
            assert!(text.parse::<T>().is_err(), "{text}");
        }
    }

    #[test]
    fn addresses() {
        check::<AddressPattern>(
            &[
                "10.0.0.1",
                "10.0.0.1:80",
                "fd00::1",
                "[fd00::1]",
                "[fd00::1]:80",
                "::1",
                ":80",
            ],
            &[
                "",
                ":",
                ":0",
                ":http",
                ":65536",
                "web",
                "10.0.0.1:",
                "10.0.0.0/8",
                "[fd00::1]:x",
            ],
        );
        let pattern: AddressPattern = "fd00::1:80".parse().unwrap();
        assert_eq!(pattern.port, None);
    }
}

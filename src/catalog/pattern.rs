//! Which Services are meant by a name that a user typed.

use std::fmt;
use std::str::FromStr;

use super::port::PortName;

/// Which Services are meant by a name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NamePattern {
    /// Any, if it is not said.
    pub namespace: Option<String>,
    /// The Service's name.
    pub service: String,
    /// Any, if it is not said.
    pub port: Option<String>,
}

/// No Service can have this name.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is no name; use `web`, `shop/web` or `shop/web:http`")]
pub struct NoName(String);

impl FromStr for NamePattern {
    type Err = NoName;

    fn from_str(text: &str) -> Result<Self, NoName> {
        let (namespace, rest) = match text.split_once('/') {
            Some((namespace, rest)) => (Some(namespace), rest),
            None => (None, text),
        };
        let (service, port) = match rest.split_once(':') {
            Some((service, port)) => (service, Some(port)),
            None => (rest, None),
        };
        let is_bad = |part: &str| part.is_empty() || part.contains(['/', ':']);
        if is_bad(service) || namespace.is_some_and(is_bad) || port.is_some_and(is_bad) {
            return Err(NoName(text.to_owned()));
        }
        Ok(Self {
            namespace: namespace.map(str::to_owned),
            service: service.to_owned(),
            port: port.map(str::to_owned),
        })
    }
}

impl NamePattern {
    /// Whether a service port is meant.
    pub fn fits(&self, name: &PortName) -> bool {
        let is_or_any =
            |asked: &Option<String>, is: &str| asked.as_deref().is_none_or(|asked| asked == is);
        self.service == name.service()
            && is_or_any(&self.namespace, name.namespace())
            && is_or_any(&self.port, name.port())
    }
}

impl fmt::Display for NamePattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(namespace) = &self.namespace {
            write!(f, "{namespace}/")?;
        }
        f.write_str(&self.service)?;
        match &self.port {
            Some(port) => write!(f, ":{port}"),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(asked: &str, expected: bool) {
        let port = PortName {
            name: "shop/web:http".into(),
            protocol: "tcp".into(),
        };
        let pattern: NamePattern = asked.parse().unwrap();
        assert_eq!(pattern.fits(&port), expected, "{asked}");
        assert_eq!(pattern.to_string(), asked);
    }

    #[test]
    fn services_are_named_in_full_or_in_part() {
        check("web", true);
        check("shop/web", true);
        check("shop/web:http", true);
        check("web:http", true);
        check("web:https", false);
        check("other/web", false);
        check("shop", false);
    }
}

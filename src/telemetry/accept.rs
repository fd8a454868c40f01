//! What a client wants a page to be: `Accept`.
//!
//! Apart from the [pages](super::zpages) because the rule is one for all of them: text unless all
//! of an object's kind, group and version are named.
//!
//! # Source
//!
//! Upstream: `staging/src/k8s.io/apiserver/pkg/endpoints/handlers/negotiation/negotiate.go` (v1.36)
//!
//! Differs from upstream: the first acceptable type counts, whatever `q` says.

use http::{HeaderMap, header};

/// The group of the objects.
pub(super) const GROUP: &str = "config.k8s.io";

/// What a page can be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Form {
    /// For people.
    Text,
    /// For programs.
    Object(Syntax, Version),
}

/// How an object is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Syntax {
    Json,
    Yaml,
}

/// The version of an object; all have the same fields.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Version {
    V1Alpha1,
    V1Beta1,
}

impl Version {
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::V1Alpha1 => "v1alpha1",
            Self::V1Beta1 => "v1beta1",
        }
    }
}

/// The first form that the client accepts of an object of this kind.
pub(super) fn form(headers: &HeaderMap, kind: &str) -> Option<Form> {
    let lines = headers.get_all(header::ACCEPT).iter();
    let mut lines = lines.filter_map(|line| line.to_str().ok()).peekable();
    if lines.peek().is_none_or(|line| line.trim().is_empty()) {
        return Some(Form::Text);
    }
    let mut ranges = lines.flat_map(|line| line.split(','));
    ranges.find_map(|range| one(range, kind))
}

fn one(range: &str, kind: &str) -> Option<Form> {
    let mut parts = range.split(';').map(str::trim);
    let syntax = match parts.next()? {
        "*/*" | "text/*" | "text/plain" => return Some(Form::Text),
        "application/json" => Syntax::Json,
        "application/yaml" => Syntax::Yaml,
        _ => return None,
    };
    let (mut group, mut version, mut named) = ("", "", "");
    for (key, value) in parts.filter_map(|part| part.split_once('=')) {
        match key {
            "g" => group = value,
            "v" => version = value,
            "as" => named = value,
            _ => {}
        }
    }
    let version = match version {
        "v1alpha1" => Version::V1Alpha1,
        "v1beta1" => Version::V1Beta1,
        _ => return None,
    };
    (group == GROUP && named == kind).then_some(Form::Object(syntax, version))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(accept: &str, expected: Option<Form>) {
        let mut headers = HeaderMap::new();
        headers.insert(header::ACCEPT, accept.parse().unwrap());
        assert_eq!(form(&headers, "Flagz"), expected, "{accept}");
    }

    #[test]
    fn an_object_has_to_be_named_in_full() {
        assert_eq!(form(&HeaderMap::new(), "Flagz"), Some(Form::Text));
        for text in [
            "",
            "*/*",
            "text/plain;charset=utf-8",
            "text/html, */*;q=0.1",
        ] {
            check(text, Some(Form::Text));
        }
        let json = Form::Object(Syntax::Json, Version::V1Beta1);
        check(
            "application/json;v=v1beta1;g=config.k8s.io;as=Flagz",
            Some(json),
        );
        check(
            "application/json, application/yaml; as=Flagz; g=config.k8s.io; v=v1alpha1",
            Some(Form::Object(Syntax::Yaml, Version::V1Alpha1)),
        );
        for nothing in [
            "application/json",
            "text/html",
            "application/json;v=v1beta1;g=config.k8s.io;as=Statusz",
            "application/json;v=v1;g=config.k8s.io;as=Flagz",
            "application/json;v=v1beta1;as=Flagz",
        ] {
            check(nothing, None);
        }
    }
}

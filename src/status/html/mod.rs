//! Pages in HTML, made on the server: no script, no request to another host, and one style sheet
//! inside of each page.
//!
//! Names and errors come from the API and from programs: `maud` escapes each text.

mod document;
mod overview;
mod service;
mod services;

pub(super) use document::{Audience, page, refusal};
pub(super) use overview::overview;
pub(super) use service::{ServicePage, service};
pub(super) use services::{ServiceList, ServiceRow, services};

#[cfg(test)]
#[path = "../tests/html.rs"]
mod tests;

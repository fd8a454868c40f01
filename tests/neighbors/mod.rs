//! A node on which other programs have rules: small ones in the shape of each program's.

mod beside;
mod explain;
mod scene;

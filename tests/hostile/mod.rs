//! Untrusted input of every kind that the program reads: objects of tenants, replies of servers,
//! files.
//!
//! `PROPTEST_CASES=1000000` tries more of it, other cases each time.

mod entitled;
mod files;
mod kernel;
mod objects;
mod pieces;
mod play;
mod texts;

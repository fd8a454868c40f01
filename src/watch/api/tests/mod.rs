//! A server that answers from a script.

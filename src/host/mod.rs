//! The only module that touches this machine.

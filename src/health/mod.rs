//! Whether this node's rules are up to date.

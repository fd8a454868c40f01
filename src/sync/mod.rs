//! When to sync, how much, and what to do when it fails.

//! Remembers what changed since the last sync that reached the kernel.

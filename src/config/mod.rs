//! Flags, resolved into the options of every other module.

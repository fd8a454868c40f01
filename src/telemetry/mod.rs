//! Logs, metrics and the small HTTP server they are served by.

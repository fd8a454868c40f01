//! Which endpoints this node uses for a port.

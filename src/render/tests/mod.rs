//! Tables for what scenarios cannot reach.

mod endpoint_limit;
mod guard;
mod live;
mod removal;

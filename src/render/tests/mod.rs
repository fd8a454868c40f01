//! Tables for what scenarios cannot reach.

mod guard;
mod live;
mod removal;

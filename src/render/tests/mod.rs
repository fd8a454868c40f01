//! Tables for what scenarios cannot reach.

mod crowd;
mod guard;
mod live;
mod removal;

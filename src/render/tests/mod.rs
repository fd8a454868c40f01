//! Tables for what scenarios cannot reach.

mod live;

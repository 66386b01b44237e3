//! staleness

//! lost_requests

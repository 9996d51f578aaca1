//! approvals

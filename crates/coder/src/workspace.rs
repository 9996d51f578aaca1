//! Workspaces: directories.

use std::path::Path;

use convoke_kward::params;
use convoke_kward::results::{WorkspaceInfo, WorkspaceRoot};
use convoke_kward::rpc::RpcError;

use crate::backend::Backend;
use crate::environment::shown;

impl Backend {
    pub(crate) fn workspace_validate(&self, params: params::Workspace) -> Result<WorkspaceRoot, RpcError> {
        let root = self.workspace(params.workspace_root.as_deref())?;
        Ok(WorkspaceRoot { root: shown(&root) })
    }

    pub(crate) fn workspace_info(&self, params: params::Workspace) -> Result<WorkspaceInfo, RpcError> {
        let root = self.workspace(params.workspace_root.as_deref())?;
        let basename = root.file_name().map_or_else(|| shown(&root), |name| shown(Path::new(name)));
        Ok(WorkspaceInfo { root: shown(&root), basename, writable: is_writable(&root) })
    }
}

/// Whether files can be made in a directory: tried with a file that has no name, and so leaves nothing behind.
fn is_writable(dir: &Path) -> bool {
    tempfile::tempfile_in(dir).is_ok()
}

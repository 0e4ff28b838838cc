//! Node: the installation behind `node` (the system's, nvm's, another manager's), npm offline.

use super::Search;

/// Adds node and npm. A user's `.npmrc` is never shown: it may hold tokens.
pub(super) fn find(search: &mut Search<'_>) {
    let Some(node) = search.program("node") else { return };
    search.show_installation(&node);
    for name in ["npm", "npx", "pnpm", "yarn"] {
        if let Some(program) = search.program(name) {
            search.show_installation(&program);
        }
    }
    search.toolchains.caches.extend(super::caches::of_npm());
    search.env("npm_config_offline", "true");
    search.env("npm_config_audit", "false");
    search.env("npm_config_fund", "false");
    search.env("npm_config_update_notifier", "false");
}

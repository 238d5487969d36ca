use super::{PathSockets, Role, path_sockets, socket_pairs, sockets_for};
use std::collections::BTreeSet;

#[test]
fn both_ends_agree_for_every_number_of_sockets() {
    for client in 1..=16 {
        for server in 1..=16 {
            for path in 0..=255 {
                let at_client = path_sockets(Role::Client, path, client, server);
                let at_server = path_sockets(Role::Server, path, server, client);
                assert_eq!(at_client.local, at_server.remote, "{client} {server} {path}");
                assert_eq!(at_client.remote, at_server.local, "{client} {server} {path}");
                assert!(at_client.local < client && at_client.remote < server);
            }
        }
    }
}

#[test]
fn the_first_paths_are_all_different() {
    for client in 1..=16 {
        for server in 1..=16 {
            let mut seen = [[false; 16]; 16];
            for path in 0..client * server {
                let PathSockets { local, remote } =
                    path_sockets(Role::Client, path as u8, client, server);
                assert!(!seen[local][remote], "{client} {server} {path}");
                seen[local][remote] = true;
            }
        }
    }
}

#[test]
fn two_ends_with_sockets_for_their_paths_have_a_pair_for_every_path() {
    let requested =
        [1, 2, 4, 5, 16, 17, 64, 65, 100, 255, 256].map(|paths| (paths, sockets_for(paths)));
    for (client_paths, client) in requested {
        assert!((client - 1) * (client - 1) < client_paths as usize);
        for (server_paths, server) in requested {
            let agreed = client_paths.min(server_paths);
            let pair = |path| {
                let PathSockets { local, remote } =
                    path_sockets(Role::Client, path as u8, client, server);
                (local, remote)
            };
            let pairs: BTreeSet<_> = (0..agreed).map(pair).collect();
            assert_eq!(pairs.len(), agreed as usize, "{client_paths} {server_paths}");
        }
    }
    assert_eq!([16, 17, 64, 256].map(sockets_for), [4, 5, 8, 16]);
}

#[test]
fn pairs_of_sockets_are_counted_as_the_paths_use_them() {
    for (paths, client, server) in [(256, 4, 4), (256, 16, 4), (200, 2, 2), (3, 4, 4), (1, 1, 1)] {
        let pair = |path| {
            let ends = path_sockets(Role::Client, path as u8, client, server);
            (ends.local, ends.remote)
        };
        let used: BTreeSet<_> = (0..paths).map(pair).collect();
        assert_eq!(socket_pairs(paths, (client, server)) as usize, used.len());
    }
}

#[test]
fn no_sockets_count_as_one() {
    let only = PathSockets { local: 0, remote: 0 };
    assert_eq!(path_sockets(Role::Server, 200, 0, 0), only);
}

use super::{PathSockets, Role, path_sockets};

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
fn no_sockets_count_as_one() {
    let only = PathSockets { local: 0, remote: 0 };
    assert_eq!(path_sockets(Role::Server, 200, 0, 0), only);
}

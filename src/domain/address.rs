use url::{Host, Url};

/// Whether a URL's host is this machine itself, by its text alone: no name is looked up, so of names only
/// `localhost` counts.
pub fn is_loopback(url: &Url) -> bool {
    match url.host() {
        Some(Host::Domain(name)) => name == "localhost",
        Some(Host::Ipv4(address)) => address.is_loopback(),
        Some(Host::Ipv6(address)) => address.is_loopback(),
        None => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_this_machine_is_loopback() {
        let is = |host: &str| is_loopback(&Url::parse(&format!("http://{host}/x")).unwrap());
        for host in ["localhost", "LOCALHOST:80", "127.0.0.1", "127.8.8.8:1", "[::1]"] {
            assert!(is(host), "{host}");
        }
        for host in ["x.localhost", "localhost.example.com", "127.0.0.1.example.com", "10.0.0.1", "[::2]"] {
            assert!(!is(host), "{host}");
        }
    }
}

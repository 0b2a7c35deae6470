//! The hosts by which a server accepts requests, so that other sites' pages cannot use it.
//!
//! A browser sends the address that it was given (`Host`) and the requesting page's site (`Origin`). A name that
//! briefly resolves to this machine (DNS rebinding) is no host of the server, and neither is another site's page.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use axum::extract::{Request, State};
use axum::http::{HeaderMap, HeaderValue, StatusCode, header, uri::Authority};

use super::answer::Failure;
use crate::output::one_line;

/// The hosts of a server: its own address, and others that it was told.
pub(super) struct Hosts {
    own: SocketAddr,
    others: Vec<String>,
}

impl Hosts {
    pub(super) fn new(own: SocketAddr, others: Vec<String>) -> Self {
        Self { own, others }
    }

    /// Whether a host, with its port unless that is 80, is one of the server.
    fn holds(&self, host: &str) -> bool {
        if self.others.iter().any(|it| it.eq_ignore_ascii_case(host)) {
            return true;
        }
        let Ok(authority) = host.parse::<Authority>() else {
            return false;
        };
        if host.contains('@') || authority.port_u16().unwrap_or(80) != self.own.port() {
            return false;
        }
        let (name, own) = (authority.host(), self.own.ip());
        let is_local = name.eq_ignore_ascii_case("localhost");
        match name.trim_matches(['[', ']']).parse::<IpAddr>() {
            // A server that listens everywhere has every address of the machine; a name could be made to resolve to it.
            Ok(ip) => own == ip || own.is_unspecified(),
            Err(_) => is_local && (own.is_loopback() || own.is_unspecified()),
        }
    }

    fn check(&self, headers: &HeaderMap) -> Result<(), Failure> {
        let hosts = headers.get_all(header::HOST);
        if hosts.iter().next().is_none() {
            return Err(self.refused("Host", "none"));
        }
        let is_host = |host: &str| self.holds(host);
        let is_page = |page: &str| {
            page.split_once("://")
                .is_some_and(|(_, host)| is_host(host))
        };
        let is_other_host = |it: &&HeaderValue| !it.to_str().is_ok_and(is_host);
        let is_other_page = |it: &&HeaderValue| !it.to_str().is_ok_and(is_page);
        let host = hosts.iter().find(is_other_host);
        let page = headers.get_all(header::ORIGIN).iter().find(is_other_page);
        let host = host.map(|it| ("Host", it));
        let refused = host.or(page.map(|it| ("Origin", it)));
        refused.map_or(Ok(()), |(header, found)| {
            Err(self.refused(header, &String::from_utf8_lossy(found.as_bytes())))
        })
    }

    fn refused(&self, header: &str, found: &str) -> Failure {
        let own = self.own;
        let line =
            format!("{header}: expected {own}, or a host that --allow-host names, found {found}");
        Failure::new(StatusCode::FORBIDDEN, one_line(&line))
    }
}

/// Passes on a request, if it came by a host of the server and not from another site's page.
pub(super) async fn guarded(
    State(hosts): State<Arc<Hosts>>,
    request: Request,
) -> Result<Request, Failure> {
    hosts.check(request.headers())?;
    Ok(request)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_has_its_own_address_and_hosts_that_are_allowed() {
        let allowed = || vec!["Translate.example:8443".to_string(), "proxy".to_string()];
        let of = |own: &str| Hosts::new(own.parse().unwrap(), allowed());
        let local = "127.0.0.1:8080 localhost:8080 LOCALHOST:8080";
        #[rustfmt::skip]
        let cases = [
            ("127.0.0.1:8080", local, "127.0.0.1 127.0.0.2:8080 10.1.2.3:8080 [::1]:8080"),
            ("[::1]:8080", "[::1]:8080 localhost:8080", "127.0.0.1:8080 [::2]:8080"),
            ("0.0.0.0:8080", "127.0.0.1:8080 10.1.2.3:8080 localhost:8080", "10.1.2.3:81"),
            ("10.1.2.3:80", "10.1.2.3 10.1.2.3:80", "localhost 10.1.2.4"),
        ];
        for (own, good, bad) in cases {
            let hosts = of(own);
            for host in good.split(' ').chain(["translate.example:8443", "proxy"]) {
                assert!(hosts.holds(host), "{host} of {own}");
            }
            let others = "evil.example evil.example:8080 localhost.evil.example:8080 translate.example proxy:81 \
                          x@127.0.0.1:8080 127.0.0.1:8080/ 127.0.0.1:8080.evil.example";
            for host in bad.split(' ').chain(others.split(' ')).chain([""]) {
                assert!(!hosts.holds(host), "{host} of {own}");
            }
        }
    }
}

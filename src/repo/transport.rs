//! git's smart protocol over reqwest: the only way to the network (S-52).
//!
//! libgit2 asks registered transports for `http` and `https` before its own, so this one serves every such
//! remote. A transfer is described by a [`Session`] that its thread carries; without one, nothing connects.
//! libgit2 flattens what a transport says to a number, so the session also keeps the first [`Failure`] for
//! whoever started the transfer.
//!
//! Invariants: the address asked is the session's, to the letter; redirects are failures; the token travels
//! in one header and is nowhere else.

use std::{
    cell::RefCell,
    io::{self, Read, Write},
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use base64::Engine as _;
use bytes::{Buf, Bytes};
use git2::transport::{Service, SmartSubtransport, SmartSubtransportStream, Transport};
use reqwest::{
    Client, Response, StatusCode,
    header::{self, HeaderValue},
    redirect::Policy,
};
use secrecy::{ExposeSecret, SecretString};
use tokio::runtime::Handle;
use tokio_util::sync::CancellationToken;
use url::Url;

use super::{engine::shown, failure::Failure};
use crate::{domain::is_loopback, method::ports::SourceError};

/// A token for one host.
#[derive(Debug, Clone)]
pub struct Credential {
    host: Url,
    token: SecretString,
}

impl Credential {
    /// `host` is a web address such as `https://github.com`; its path is ignored. The token is sent to
    /// repositories on that scheme, host and port only.
    pub fn new(host: &str, token: SecretString) -> Result<Self, SourceError> {
        let host = Url::parse(host).ok().filter(|url| url.scheme() == "https" || is_loopback(url));
        let host = host.ok_or_else(|| {
            SourceError::Input("the host that the git token is for must look like https://github.com".into())
        })?;
        Ok(Self { host, token })
    }

    fn header_for(&self, url: &Url) -> Option<HeaderValue> {
        if url.origin() != self.host.origin() {
            return None;
        }
        let pair = format!("x-access-token:{}", self.token.expose_secret());
        let basic = format!("Basic {}", base64::engine::general_purpose::STANDARD.encode(pair));
        let mut value = HeaderValue::from_str(&basic).expect("base64 is valid in a header");
        value.set_sensitive(true);
        Some(value)
    }
}

/// Limits of one transfer (S-55).
#[derive(Debug, Clone, Copy)]
pub(super) struct Limits {
    /// Bytes received.
    pub max_bytes: u64,
    /// Wall clock, from the session's start.
    pub max_time: Duration,
    /// Longest wait for the next byte.
    pub max_silence: Duration,
}

/// One transfer: its address, rights, limits, and what became of it.
pub(super) struct Session {
    url: Url,
    client: Client,
    /// Runs requests, while the thread of the transfer waits.
    runtime: Handle,
    authorization: Option<HeaderValue>,
    limits: Limits,
    started: Instant,
    received: AtomicU64,
    token: CancellationToken,
    failure: Mutex<Option<Failure>>,
}

impl Session {
    /// Only called on a blocking thread of a tokio runtime.
    pub(super) fn new(
        url: &Url,
        credential: Option<&Credential>,
        limits: Limits,
        token: &CancellationToken,
    ) -> Result<Arc<Self>, SourceError> {
        // reqwest takes the process's provider and panics where there is none. When it is installed already,
        // by `main`, this changes nothing.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let mut client = Client::builder()
            // GitHub serves the smart protocol to agents that call themselves git.
            .user_agent(concat!("git/2.0 (acquire ", env!("CARGO_PKG_VERSION"), ")"))
            .redirect(Policy::none())
            .referer(false);
        if is_loopback(url) {
            client = client.no_proxy();
        }
        let client = client.build().map_err(|error| Failure::Unreachable(causes(&error)).about(url))?;
        Ok(Arc::new(Self {
            url: url.clone(),
            client,
            runtime: Handle::current(),
            authorization: credential.and_then(|c| c.header_for(url)),
            limits,
            started: Instant::now(),
            received: AtomicU64::new(0),
            token: token.clone(),
            failure: Mutex::new(None),
        }))
    }

    /// Runs `work` with this session on the thread. Its own error is replaced by the failure of the transport
    /// where there was one; otherwise `otherwise` words it.
    pub(super) fn run<T>(
        self: &Arc<Self>,
        work: impl FnOnce() -> Result<T, git2::Error>,
        otherwise: impl FnOnce(git2::Error) -> SourceError,
    ) -> Result<T, SourceError> {
        let result = {
            let _entered = Entered::new(self.clone());
            work()
        };
        result.map_err(|error| match self.failure.lock().unwrap_or_else(PoisonError::into_inner).take() {
            Some(failure) => failure.about(&self.url),
            None => otherwise(error),
        })
    }

    /// Notes the reason and is false when the transfer must end, for libgit2's progress callbacks.
    pub(super) fn may_go_on(&self) -> bool {
        match self.overstepped() {
            Some(failure) => {
                self.fail(failure);
                false
            }
            None => true,
        }
    }

    fn overstepped(&self) -> Option<Failure> {
        if self.token.is_cancelled() {
            Some(Failure::Cancelled)
        } else if self.started.elapsed() > self.limits.max_time {
            Some(Failure::TooSlow(self.limits.max_time))
        } else if self.received.load(Ordering::Relaxed) > self.limits.max_bytes {
            Some(Failure::TooLarge(self.limits.max_bytes))
        } else {
            None
        }
    }

    /// Waits for the server within the limits, and no longer than somebody waits for this transfer.
    fn wait<T>(&self, reply: impl Future<Output = reqwest::Result<T>>) -> Result<T, Failure> {
        let left = self.limits.max_time.saturating_sub(self.started.elapsed());
        let patience = left.min(self.limits.max_silence);
        self.runtime.block_on(async {
            tokio::select! {
                () = self.token.cancelled() => Err(Failure::Cancelled),
                reply = tokio::time::timeout(patience, reply) => match reply {
                    Ok(reply) => reply.map_err(|error| failure_of(&error)),
                    Err(_) if patience == left => Err(Failure::TooSlow(self.limits.max_time)),
                    Err(_) => Err(Failure::Silent(self.limits.max_silence)),
                },
            }
        })
    }

    /// Keeps the first failure; later ones follow from it.
    fn fail(&self, failure: Failure) {
        self.failure.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(failure);
    }

    fn send(&self, service: Service, body: Vec<u8>) -> Result<Response, Failure> {
        let (name, is_listing) = match service {
            Service::UploadPackLs => ("git-upload-pack", true),
            Service::UploadPack => ("git-upload-pack", false),
            Service::ReceivePackLs => ("git-receive-pack", true),
            Service::ReceivePack => ("git-receive-pack", false),
        };
        let (mut request, expected) = if is_listing {
            let address = format!("{}/info/refs?service={name}", self.url);
            (self.client.get(address), format!("application/x-{name}-advertisement"))
        } else {
            let request = self.client.post(format!("{}/{name}", self.url)).body(body);
            let request = request.header(header::CONTENT_TYPE, format!("application/x-{name}-request"));
            (request, format!("application/x-{name}-result"))
        };
        request = request.header(header::ACCEPT, &expected);
        if let Some(value) = &self.authorization {
            request = request.header(header::AUTHORIZATION, value.clone());
        }
        let response = self.wait(request.send())?;
        self.judge(response, &expected)
    }

    fn judge(&self, response: Response, expected: &str) -> Result<Response, Failure> {
        let text = |name| {
            let value = response.headers().get(name).map(HeaderValue::as_bytes).unwrap_or_default();
            shown(&String::from_utf8_lossy(value))
        };
        let token_sent = self.authorization.is_some();
        match response.status() {
            StatusCode::OK if text(header::CONTENT_TYPE) == expected => Ok(response),
            StatusCode::OK => Err(Failure::NotGit { content_type: text(header::CONTENT_TYPE) }),
            status @ (StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN) => {
                Err(Failure::Unauthorized { status: status.as_u16(), token_sent })
            }
            StatusCode::NOT_FOUND => Err(Failure::NotFound { token_sent }),
            status if status.is_redirection() => Err(Failure::Redirected { to: text(header::LOCATION) }),
            status => Err(Failure::Status { status: status.as_u16() }),
        }
    }
}

fn failure_of(error: &reqwest::Error) -> Failure {
    if error.is_connect() { Failure::Unreachable(causes(error)) } else { Failure::Broken(causes(error)) }
}

/// The innermost cause says most; the outer ones repeat the address.
fn causes(error: &reqwest::Error) -> String {
    let mut cause: &dyn std::error::Error = error;
    while let Some(inner) = cause.source() {
        cause = inner;
    }
    shown(&cause.to_string())
}

thread_local! {
    /// The session of the transfer that runs on this thread. libgit2 calls transports on the thread of the
    /// transfer, and hands a registered one nothing but the remote.
    static CURRENT: RefCell<Option<Arc<Session>>> = const { RefCell::new(None) };
}

/// Makes a session the thread's own for as long as it lives, also when the transfer panics.
struct Entered;

impl Entered {
    fn new(session: Arc<Session>) -> Self {
        CURRENT.with_borrow_mut(|current| *current = Some(session));
        Self
    }
}

impl Drop for Entered {
    fn drop(&mut self) {
        CURRENT.with_borrow_mut(|current| *current = None);
    }
}

/// Takes the place of libgit2's own http transports. Called once, by `engine::init`.
pub(super) fn register() {
    for scheme in ["http", "https"] {
        let factory = |remote: &git2::Remote<'_>| {
            let session = CURRENT.with_borrow(Clone::clone);
            let session = session.ok_or_else(|| git2::Error::from_str("no transfer runs on this thread"))?;
            Transport::smart(remote, true, Wire(session))
        };
        // SAFETY: must not run beside the creation of transports; `engine::init` runs before any of them.
        unsafe { git2::transport::register(scheme, factory) }.expect("each scheme is registered once");
    }
}

struct Wire(Arc<Session>);

impl SmartSubtransport for Wire {
    fn action(&self, url: &str, service: Service) -> Result<Box<dyn SmartSubtransportStream>, git2::Error> {
        if url != self.0.url.as_str() {
            self.0.fail(Failure::WrongAddress);
            return Err(git2::Error::from_str("wrong address"));
        }
        Ok(Box::new(Exchange {
            session: self.0.clone(),
            service,
            body: Vec::new(),
            response: None,
            rest: Bytes::new(),
        }))
    }

    fn close(&self) -> Result<(), git2::Error> {
        Ok(())
    }
}

/// One request and its response: what is written is the body, the first read sends it.
struct Exchange {
    session: Arc<Session>,
    service: Service,
    body: Vec<u8>,
    response: Option<Response>,
    /// Received and not read yet.
    rest: Bytes,
}

impl Exchange {
    fn receive(&mut self, into: &mut [u8]) -> Result<usize, Failure> {
        let session = &self.session;
        let response = match &mut self.response {
            Some(response) => response,
            none => none.insert(session.send(self.service, std::mem::take(&mut self.body))?),
        };
        while self.rest.is_empty() {
            let Some(chunk) = session.wait(response.chunk())? else { return Ok(0) };
            session.received.fetch_add(chunk.len() as u64, Ordering::Relaxed);
            if let Some(failure) = session.overstepped() {
                return Err(failure);
            }
            self.rest = chunk;
        }
        let read = self.rest.len().min(into.len());
        self.rest.copy_to_slice(&mut into[..read]);
        Ok(read)
    }
}

impl Read for Exchange {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        self.receive(into).map_err(|failure| {
            self.session.fail(failure);
            // git2 makes a C string of this text, so it must not come from outside.
            io::Error::other("the transfer failed")
        })
    }
}

impl Write for Exchange {
    fn write(&mut self, data: &[u8]) -> io::Result<usize> {
        self.body.extend_from_slice(data);
        Ok(data.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn header(host: &str, url: &str) -> Option<HeaderValue> {
        let credential = Credential::new(host, SecretString::from("s3cret")).unwrap();
        credential.header_for(&Url::parse(url).unwrap())
    }

    #[test]
    fn s_52_the_token_is_for_its_host_alone() {
        let sent = header("https://github.com", "https://github.com/o/n").unwrap();
        assert_eq!(
            sent,
            format!("Basic {}", base64::engine::general_purpose::STANDARD.encode("x-access-token:s3cret"))
        );
        for url in [
            "https://github.com.evil.example/o/n",
            "https://evil.example/github.com",
            "https://github.com:444/o/n",
            "http://github.com/o/n",
            "https://sub.github.com/o/n",
        ] {
            assert_eq!(header("https://github.com", url), None, "{url}");
        }
        for host in [
            "http://github.com",
            "http://evillocalhost",
            "http://x.localhost",
            "http://localhost.example.com",
            "http://127.0.0.1.example.com",
        ] {
            assert!(Credential::new(host, SecretString::from("x")).is_err(), "{host}");
        }
    }

    #[test]
    fn s_40_the_token_shows_nowhere() {
        let credential = Credential::new("https://github.com", SecretString::from("s3cret")).unwrap();
        let sent = header("https://github.com", "https://github.com/o/n").unwrap();
        assert!(!format!("{credential:?} {sent:?}").contains("s3cret"));
    }
}

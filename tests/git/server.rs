//! A web server on loopback that hands git's requests to the real `git http-backend`, or misbehaves.

use std::{
    io::{BufRead, BufReader, Read, Write},
    net::{TcpListener, TcpStream},
    path::{Path, PathBuf},
    process::Stdio,
    sync::{Arc, Mutex},
};

use super::project::git_command;

/// What it answers with.
#[derive(Debug, Clone)]
pub enum Answer {
    /// What git says.
    Git,
    /// What git says, to those who send `x-access-token` with this token; 401 to everybody else.
    GitFor(&'static str),
    /// This status with these header lines and nothing else.
    Status(&'static str, String),
    /// A web page.
    Page,
    /// Nothing, ever.
    Silence,
    /// What git says to the listing, then a pack that never ends, quickly.
    Endless,
    /// What git says to the listing, then a byte at a time, for ever.
    Drip,
    /// What git says to the listing, then this pack, whatever was asked for.
    Pack(Arc<Vec<u8>>),
}

/// A request as it came.
#[derive(Debug, Clone)]
pub struct Seen {
    pub method: String,
    /// Path and query.
    pub target: String,
    pub authorization: Option<String>,
}

impl Seen {
    fn is_listing(&self) -> bool {
        self.target.contains("/info/refs")
    }
}

/// Serves one repository at `/owner/name` until it is dropped with the process.
pub struct Server {
    address: String,
    answer: Arc<Mutex<Answer>>,
    seen: Arc<Mutex<Vec<Seen>>>,
}

impl Server {
    /// Serves the repository in `git_dir` (bare, or the `.git` of a work tree).
    pub fn start(git_dir: &Path) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let server = Self {
            address: listener.local_addr().unwrap().to_string(),
            answer: Arc::new(Mutex::new(Answer::Git)),
            seen: Arc::default(),
        };
        let (answer, seen, git_dir) = (server.answer.clone(), server.seen.clone(), git_dir.to_owned());
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let (answer, seen, git_dir) = (answer.clone(), seen.clone(), git_dir.clone());
                // A client that hangs up in the middle is part of some tests.
                std::thread::spawn(move || serve(&stream.unwrap(), &answer, &seen, &git_dir).ok());
            }
        });
        server
    }

    pub fn answer(&self, answer: Answer) {
        *self.answer.lock().unwrap() = answer;
    }

    pub fn url(&self) -> String {
        format!("http://{}/owner/name", self.address)
    }

    pub fn host(&self) -> String {
        format!("http://{}", self.address)
    }

    /// The requests since the last time that this was asked.
    pub fn seen(&self) -> Vec<Seen> {
        std::mem::take(&mut self.seen.lock().unwrap())
    }
}

fn serve(
    stream: &TcpStream,
    answer: &Mutex<Answer>,
    seen: &Mutex<Vec<Seen>>,
    git_dir: &Path,
) -> std::io::Result<()> {
    let mut reader = BufReader::new(stream);
    let mut line = String::new();
    reader.read_line(&mut line)?;
    let mut words = line.split(' ');
    let mut request = Seen {
        method: words.next().unwrap_or_default().to_owned(),
        target: words.next().unwrap_or_default().to_owned(),
        authorization: None,
    };
    let (mut length, mut content_type) = (0, String::new());
    loop {
        let mut line = String::new();
        reader.read_line(&mut line)?;
        let Some((name, value)) = line.trim_end().split_once(": ") else { break };
        match name.to_ascii_lowercase().as_str() {
            "content-length" => length = value.parse().unwrap(),
            "content-type" => content_type = value.to_owned(),
            "authorization" => request.authorization = Some(value.to_owned()),
            _ => {}
        }
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body)?;
    seen.lock().unwrap().push(request.clone());
    let answer = answer.lock().unwrap().clone();
    let mut stream = stream;
    match answer {
        Answer::GitFor(token) if request.authorization != Some(basic(token)) => {
            stream.write_all(b"HTTP/1.1 401 Unauthorized\r\ncontent-length: 0\r\nconnection: close\r\n\r\n")
        }
        Answer::Status(status, headers) => {
            write!(stream, "HTTP/1.1 {status}\r\n{headers}content-length: 0\r\nconnection: close\r\n\r\n")
        }
        Answer::Page => stream.write_all(
            b"HTTP/1.1 200 OK\r\ncontent-type: text/html\r\ncontent-length: 4\r\nconnection: close\r\n\r\n<p/>",
        ),
        Answer::Silence => {
            let mut rest = Vec::new();
            reader.read_to_end(&mut rest).map(drop)
        }
        Answer::Endless if !request.is_listing() => pack_without_end(stream, &[0; 60_000]),
        Answer::Drip if !request.is_listing() => pack_without_end(stream, b""),
        Answer::Pack(pack) if !request.is_listing() => whole_pack(stream, &pack),
        _ => backend(stream, &request, &content_type, &body, git_dir),
    }
}

const BEGINNING: &[u8] =
    b"HTTP/1.1 200 OK\r\ncontent-type: application/x-git-upload-pack-result\r\nconnection: close\r\n\r\n0008NAK\n";

fn whole_pack(mut stream: &TcpStream, pack: &[u8]) -> std::io::Result<()> {
    stream.write_all(BEGINNING)?;
    for part in pack.chunks(60_000) {
        write!(stream, "{:04x}\x01", 5 + part.len())?;
        stream.write_all(part)?;
    }
    stream.write_all(b"0000")
}

/// A valid beginning of a fetch's answer, then `filler` in progress messages until the client hangs up; an
/// empty filler sends a short message every 20 ms.
fn pack_without_end(mut stream: &TcpStream, filler: &[u8]) -> std::io::Result<()> {
    stream.write_all(BEGINNING)?;
    loop {
        write!(stream, "{:04x}\x02", 5 + filler.len().max(1))?;
        if filler.is_empty() {
            stream.write_all(b".")?;
            std::thread::sleep(std::time::Duration::from_millis(20));
        } else {
            stream.write_all(filler)?;
        }
    }
}

pub fn basic(token: &str) -> String {
    use base64::Engine as _;
    format!("Basic {}", base64::engine::general_purpose::STANDARD.encode(format!("x-access-token:{token}")))
}

/// Runs the CGI program and passes on what it says.
fn backend(
    mut stream: &TcpStream,
    request: &Seen,
    content_type: &str,
    body: &[u8],
    git_dir: &Path,
) -> std::io::Result<()> {
    let (path, query) = request.target.split_once('?').unwrap_or((&request.target, ""));
    let inside = path.strip_prefix("/owner/name").unwrap_or("/nowhere");
    let root: PathBuf = git_dir.canonicalize()?;
    let mut child = git_command(&root)
        .arg("http-backend")
        .env("GIT_PROJECT_ROOT", root.parent().unwrap())
        .env("GIT_HTTP_EXPORT_ALL", "1")
        .env("PATH_INFO", format!("/{}{inside}", root.file_name().unwrap().to_str().unwrap()))
        .env("QUERY_STRING", query)
        .env("REQUEST_METHOD", &request.method)
        .env("CONTENT_TYPE", content_type)
        .env("REMOTE_USER", "tester")
        .env("REMOTE_ADDR", "127.0.0.1")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()?;
    let mut stdin = child.stdin.take().unwrap();
    let body = body.to_vec();
    let writer = std::thread::spawn(move || stdin.write_all(&body));
    let mut said = Vec::new();
    child.stdout.take().unwrap().read_to_end(&mut said)?;
    child.wait()?;
    let _ = writer.join().unwrap();
    let end = said.windows(4).position(|w| w == b"\r\n\r\n").expect("the CGI program sends headers");
    let headers = String::from_utf8_lossy(&said[..end]).into_owned();
    let status = headers.lines().find_map(|line| line.strip_prefix("Status: ")).unwrap_or("200 OK");
    let content = &said[end + 4..];
    write!(stream, "HTTP/1.1 {status}\r\n{headers}\r\ncontent-length: {}\r\n", content.len())?;
    stream.write_all(b"connection: close\r\n\r\n")?;
    stream.write_all(content)
}

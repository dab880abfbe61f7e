//! Whole runs of the program: a real repository, a real sandbox, a scripted model behind a real endpoint.

#[path = "../support/engine_proxy.rs"]
mod engine_proxy;
#[path = "../support/script.rs"]
mod script;

mod ask;
mod baseline;
mod bench;
mod bench_money;
mod bench_scorer;
mod doctor;
mod endpoint;
mod evidence;
mod exports;
mod hostile_agent;
mod hostile_repo;
mod inputs;
mod instructions;
mod limits;
mod project;
mod questioner;
mod replies;
mod resume;
mod resume_account;
mod settings;
mod sources;
mod story;
mod streams;
mod text_mode;

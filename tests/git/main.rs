//! The `repo` room against real repositories, the real `git` and a real `git http-backend` on loopback.

mod agent_repository;
mod folder;
mod history;
mod hostile;
mod patch;
mod project;
mod push;
mod server;
mod web;

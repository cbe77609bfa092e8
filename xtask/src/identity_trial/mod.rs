//! `cargo xtask identity-trial`: indexes a tree on file systems of many kinds, then attaches them
//! elsewhere, swaps images under the same name, makes links and replaces packages. A start with the
//! index must do what a plain start does; where nothing has changed, it must still be answered.
//!
//! [`scene`] has the tree, the images and the mounts; this module has the rows of `docs/identity.md`.

mod scene;

use std::fs;
use std::path::{Path, PathBuf};
use std::thread::sleep;
use std::time::Duration;

use anyhow::{Result, ensure};
use clap::Args;

use self::scene::{FLAT, OTHER, Scene};

/// Options of the trial.
#[derive(Args)]
pub struct Options {
    /// The becalm to try
    #[arg(long)]
    becalm: PathBuf,
    /// The lab, for its FUSE file system
    #[arg(long)]
    lab: PathBuf,
}

type Row = (&'static str, fn(&Scene) -> Result<()>);

const ROWS: [Row; 12] = [
    ("an ext4 file system is attached to another device", |s| moved(s, "ext4")),
    ("an XFS file system is attached to another device", |s| moved(s, "xfs")),
    ("a squashfs image is attached to another device", |s| moved(s, "squashfs")),
    ("a hard link to a bound library is made and removed", linked),
    ("a program and library without a build ID are bound", without_build_id),
    ("a library without a build ID is replaced inside its package", replaced),
    ("a package is made again with a library that is found first", made_again),
    ("a squashfs image is replaced by its next version", |s| swapped(s, "squashfs")),
    ("an EROFS image is replaced by its next version", |s| swapped(s, "erofs")),
    ("a FUSE file system does not change the times of directories", fuse),
    ("an overlay adds a file to a package", overlay),
    ("a file system lists names without types", without_types),
];

/// Runs the trial.
///
/// # Errors
/// Returns an error if a file system cannot be made or mounted.
pub fn run(options: &Options) -> Result<bool> {
    let mut failed = 0;
    for (name, row) in ROWS {
        let scene = Scene::new(&options.becalm, &options.lab)?;
        match row(&scene) {
            Ok(()) => println!("{name}: as it should be"),
            Err(error) => {
                failed += 1;
                println!("{name}: {error:#}");
            }
        }
    }
    println!("{} rows, {failed} wrong", ROWS.len());
    Ok(failed == 0)
}

/// The same image on another loop device.
fn moved(scene: &Scene, kind: &str) -> Result<()> {
    scene.tree(&scene.at("staging"), &[])?;
    let image = scene.image(kind, "image")?;
    let first = scene.attach(&image, None)?;
    scene.index(&["--program", &scene.program()])?;
    scene.expect_answered(1)?;
    scene.detach()?;
    let other = scene.attach_to_another(&image, &first)?;
    ensure!(other != first, "the device is the same");
    scene.expect_answered(1)
}

fn linked(scene: &Scene) -> Result<()> {
    scene.tree(&scene.at("mount"), &[])?;
    scene.index(&["--program", &scene.program()])?;
    for file in [scene.library(), scene.program()] {
        // In a directory that no search passes.
        let link = scene.at("mount").join("dirs/link");
        sleep(Duration::from_millis(20));
        fs::hard_link(&file, &link)?;
        scene.expect_answered(1)?;
        fs::remove_file(&link)?;
        scene.expect_answered(1)?;
    }
    Ok(())
}

fn without_build_id(scene: &Scene) -> Result<()> {
    scene.tree(&scene.at("mount"), &["-Wl,--build-id=none"])?;
    scene.index(&["--program", &scene.program()])?;
    scene.expect_answered(1)
}

/// A store whose own directory does not change.
fn replaced(scene: &Scene) -> Result<()> {
    scene.tree(&scene.at("mount"), &["-Wl,--build-id=none"])?;
    scene.index(&[&scene.store(), "--program", &scene.program()])?;
    scene.expect_answered(1)?;
    let new = format!("{}.new", scene.library());
    scene.make_library(Path::new(&new), 2, &["-Wl,--build-id=none", "-DSHIFTED"])?;
    fs::rename(&new, scene.library())?;
    scene.expect(2)
}

fn made_again(scene: &Scene) -> Result<()> {
    scene.tree(&scene.at("mount"), &[])?;
    scene.index(&[&scene.store(), "--program", &scene.program()])?;
    scene.expect_answered(1)?;
    let package = scene.at("mount").join(OTHER);
    fs::remove_dir_all(&package)?;
    fs::create_dir_all(package.join("lib"))?;
    scene.make_library(&package.join("lib/libx.so"), 3, &[])?;
    scene.expect(3)
}

/// The next version has the same inodes, times and sizes of directories, on the same device and mount
/// point, but a library that is found first.
fn swapped(scene: &Scene, kind: &str) -> Result<()> {
    scene.tree(&scene.at("staging"), &[])?;
    let first = scene.image(kind, "first")?;
    let package = scene.at("staging").join(OTHER).join("lib");
    fs::remove_file(package.join("libz.so"))?;
    scene.make_library(&package.join("libx.so"), 2, &[])?;
    let later = Path::new(FLAT).join("lib/later");
    fs::write(scene.at("staging").join(&later), "")?;
    let later = scene.at("mount").join(later);
    let second = scene.image(kind, "second")?;

    let device = scene.attach(&first, None)?;
    let with_paths = [&*scene.store(), "--paths", "--program", &scene.program()];
    for arguments in [&["--program", &scene.program()][..], &[&scene.store()], &with_paths] {
        scene.index(arguments)?;
        scene.expect(1)?;
        scene.expect_file(&later, false)?;
        scene.detach()?;
        scene.attach(&second, Some(&device))?;
        scene.expect(2)?;
        scene.expect_file(&later, true)?;
        let said = scene.update(arguments)?;
        ensure!(!said.contains("up to date"), "an update says: {said}");
        scene.detach()?;
        scene.attach(&first, Some(&device))?;
    }
    // The index that `becalm run` keeps.
    ensure!(scene.run()? == 1 && scene.run()? == 1, "the first version under becalm run");
    scene.detach()?;
    scene.attach(&second, Some(&device))?;
    ensure!(scene.run()? == 2, "the next version under becalm run");
    Ok(())
}

fn fuse(scene: &Scene) -> Result<()> {
    scene.tree(&scene.at("staging"), &[])?;
    let mount = scene.fuse()?;
    let said = scene.index(&[&scene.store(), "--paths", "--program", &scene.program()])?;
    ensure!(said.contains("times of directories"), "becalm index does not say why: {said}");
    scene.expect_answered(1)?;
    let later = Path::new(FLAT).join("lib/later");
    scene.expect_file(&scene.at("mount").join(&later), false)?;
    fs::write(scene.at("staging").join(&later), "")?;
    scene.make_library(&scene.at("staging").join(OTHER).join("lib/libx.so"), 4, &[])?;
    scene.expect_file(&scene.at("mount").join(&later), true)?;
    scene.expect(4)?;
    drop(mount);
    Ok(())
}

/// A lower layer below the store: all directories keep the inodes and times of the upper one.
fn overlay(scene: &Scene) -> Result<()> {
    scene.tree(&scene.at("mount"), &[])?;
    let package = scene.at("mount").join(FLAT);
    let store = scene.store();
    scene.index(&[&store, "--paths", "--program", &scene.program()])?;
    let more = scene.at("staging");
    for package in [FLAT, OTHER] {
        fs::create_dir_all(more.join(package).join("lib"))?;
    }
    fs::write(more.join(FLAT).join("lib/later"), "")?;
    scene.make_library(&more.join(OTHER).join("lib/libx.so"), 5, &[])?;
    scene.expect_file(&package.join("lib/later"), false)?;
    let layers = format!("lowerdir={store}:{}/store", text(&more));
    scene.mount(&["-t", "overlay", "overlay", "-o", &layers, &store])?;
    scene.expect_file(&package.join("lib/later"), true)?;
    scene.expect(5)
}

fn without_types(scene: &Scene) -> Result<()> {
    scene.tree(&scene.at("staging"), &[])?;
    let image = scene.image("ext4-without-types", "image")?;
    scene.attach(&image, None)?;
    scene.index(&[&scene.store(), "--paths", "--program", &scene.program()])?;
    let absent = scene.at("mount").join(FLAT).join("lib/absent");
    scene.expect_file(&absent, false)?;
    let looked = scene.lookups(&absent)?;
    ensure!(looked == 0, "{looked} lookups of a path below an indexed package");
    Ok(())
}

fn text(path: &Path) -> String {
    path.to_string_lossy().into_owned()
}

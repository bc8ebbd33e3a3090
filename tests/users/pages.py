# SPDX-License-Identifier: MIT
"""The page of the report in a headless browser: is all of it drawn, and nothing cut off?"""

from jobs import *  # noqa: F403

# Appended to the page. Notes every error of its scripts, every text that is wider than
# the place it has, everything that sticks out of the window, and canvases that are blank.
PROBE = """
<script>
addEventListener('load', () => setTimeout(() => {
  const wrong = window.wrongs;
  for (const e of document.querySelectorAll('b, span, p, h1, h2, th, td, label, summary, select, section, .tile')) {
    if (e.closest('details:not([open])') && e.tagName !== 'SUMMARY') continue;
    if (e.scrollWidth > e.clientWidth + 1 && getComputedStyle(e).display !== 'inline')
      wrong.push(`cut off: ${e.tagName} ${e.textContent.slice(0, 60)}`);
    const box = e.getBoundingClientRect();
    if (box.right > innerWidth + 1 && !e.closest('.box'))
      wrong.push(`outside: ${e.tagName} ${e.textContent.slice(0, 60)}`);
  }
  if (document.documentElement.scrollWidth > innerWidth + 1) wrong.push('the page is wider than the window');
  const canvases = [...document.querySelectorAll('canvas')];
  if (canvases.length < 3) wrong.push(`only ${canvases.length} canvases`);
  for (const c of canvases) {
    const data = new Uint32Array(c.getContext('2d').getImageData(0, 0, c.width, c.height).data.buffer);
    if (new Set(data.filter((x, i) => i % 7 === 0)).size < 3) wrong.push('a canvas is blank');
  }
  const cells = document.querySelectorAll('.tile').length;
  document.body.append(`probed: ${cells} tiles, background ${getComputedStyle(document.body).backgroundColor}; ` +
                       `wrong: ${JSON.stringify(wrong)} end of probe`);
}, 300));
</script>
"""
CATCH = "<script>window.wrongs = []; addEventListener('error', e => wrongs.push('error: ' + e.message));</script>"


def browser():
    for name in ("chromium", "chromium-browser", "google-chrome"):
        if shutil.which(name):
            return shutil.which(name)
    raise Skip("needs chromium")


def show(bench, page, name, width, *options):
    """Renders the page; returns what the probe found. With -v a picture is left in build/pictures."""
    path = os.path.join(bench.root, name + ".html")
    command = [browser(), "--headless=new", "--no-sandbox", "--disable-gpu", "--hide-scrollbars",
               f"--user-data-dir={bench.root}/browser", f"--window-size={width},2400", "--virtual-time-budget=3000",
               *options]
    with open(path, "w", encoding="utf-8") as f:
        f.write(page.replace("<main>", CATCH + "<main>", 1) + PROBE)
    dumped = bench.run(*command, "--dump-dom", f"file://{path}", timeout=120)
    found = re.search(r"probed: (\d+) tiles, background rgb\((\d+), .*?; wrong: (.*?) end of probe", dumped.out, re.S)
    check(found, f"the page was not drawn\n{dumped.err[-2000:]}")
    if "-v" in sys.argv:
        pictures = os.path.join(bench.build, "pictures")
        os.makedirs(pictures, exist_ok=True)
        with open(path, "w", encoding="utf-8") as f:
            f.write(page)
        bench.run(*command, f"--screenshot={pictures}/{name}.png", f"file://{path}", timeout=120)
    return int(found[1]), int(found[2]), json.loads(found[3].replace("&lt;", "<").replace("&gt;", ">"))


def simulated(bench, ranks):
    program = os.path.join(bench.build, "tests", "users", "simulated_report")
    if not os.path.exists(program):
        raise Skip("simulated_report was not built")
    return bench.run(program, str(ranks)).out


def looks_right(bench, ranks, width=1160):
    browser()
    page = simulated(bench, ranks)
    for theme, number in (("light", 1), ("dark", 0)):
        tiles, red, wrong = show(bench, page, f"report-{ranks}-{theme}-{width}", width,
                                 f"--blink-settings=preferredColorScheme={number}")
        check(tiles == 8 and wrong == [], wrong)
        check(red > 200 if theme == "light" else red < 60, f"{theme}: the background is {red}")


@test
def the_page_of_four_ranks_is_drawn_whole_in_light_and_dark(bench):
    looks_right(bench, 4)


@test
def the_page_of_a_thousand_ranks_is_drawn_whole_in_light_and_dark(bench):
    looks_right(bench, 1000)


@test
def the_page_fits_a_narrow_window(bench):
    looks_right(bench, 27, 520)


@test
def the_page_of_a_real_job_is_drawn_whole(bench):
    path = os.path.join(bench.root, "real.html")
    right(bench.run(*bench.job(3, "traffic", settings={"STORM_REPORT": f"html:{path}"})))
    tiles, _, wrong = show(bench, read(path), "report-real", 1160)
    check(tiles == 8 and wrong == [], wrong)


@test
def the_probe_finds_what_is_cut_off_and_what_fails(bench):
    page = simulated(bench, 4).replace("minmax(200px, 1fr)", "30px").replace(
        "b { display: block;", "b { overflow: hidden; white-space: nowrap; display: block;")
    wrong = show(bench, page, "report-spoilt", 1160)[2]
    check(any("cut off" in w or "outside" in w for w in wrong), wrong)
    wrong = show(bench, simulated(bench, 4).replace("function settings() {", "function settings() { nothing();"),
                 "report-failing", 1160)[2]
    check(any("nothing is not defined" in w for w in wrong), wrong)


# For drawings: each text is inside of its drawing, and no square of a legend hides a point.
DRAWING_PROBE = """
<script>
const wrong = [];
for (const svg of document.querySelectorAll('svg')) {
  const width = svg.width.baseVal.value, height = svg.height.baseVal.value, of = svg.parentNode.title;
  const boxes = [...svg.querySelectorAll('text')].map(t => [t.textContent, t.getBBox()]);
  for (const [text, b] of boxes)
    if (b.x < 0 || b.y < 0 || b.x + b.width > width || b.y + b.height > height) wrong.push(`${of}: cut off: ${text}`);
  for (const r of svg.querySelectorAll('rect[width="10"]'))
    for (const c of svg.querySelectorAll('circle')) {
      const a = r.getBBox(), b = c.getBBox();
      if (a.x < b.x + b.width && b.x < a.x + a.width && a.y < b.y + b.height && b.y < a.y + a.height)
        wrong.push(`${of}: a point is hidden`);
    }
  if (boxes.length < 5) wrong.push(`${of}: nothing is drawn`);
}
const ground = document.querySelector('.ground');
document.body.append(`probed: ${document.querySelectorAll('svg').length} drawings, background ` +
                     `${getComputedStyle(ground).fill}; wrong: ${JSON.stringify(wrong)} end of probe`);
</script>
"""


def drawings():
    folder = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "bench", "plots")
    return {name: read(os.path.join(folder, name)) for name in sorted(os.listdir(folder)) if name.endswith(".svg")}


def look_at_drawings(bench, drawn, theme):
    body = "".join(f'<div title="{name}">{svg}</div>' for name, svg in drawn.items())
    path = os.path.join(bench.root, "drawings.html")
    with open(path, "w", encoding="utf-8") as f:
        f.write(f"<!DOCTYPE html><body>{body}{DRAWING_PROBE}</body>")
    dumped = bench.run(browser(), "--headless=new", "--no-sandbox", "--disable-gpu",
                       f"--user-data-dir={bench.root}/browser", f"--blink-settings=preferredColorScheme={theme}",
                       "--dump-dom", f"file://{path}", timeout=120)
    found = re.search(r"probed: (\d+) drawings, background rgb\((\d+), .*?; wrong: (.*?) end of probe", dumped.out,
                      re.S)
    check(found and int(found[1]) == len(drawn) > 0, f"the drawings were not looked at\n{dumped.err[-2000:]}")
    return int(found[2]), json.loads(found[3].replace("&lt;", "<").replace("&gt;", ">"))


@test
def the_plots_of_the_benchmarks_are_drawn_whole_in_light_and_dark(bench):
    for theme in (1, 0):
        red, wrong = look_at_drawings(bench, drawings(), theme)
        check(wrong == [] and (red > 200) == bool(theme), (red, wrong))


@test
def the_probe_finds_a_cut_text_and_a_hidden_point_in_a_drawing(bench):
    whole = drawings()["scaling.svg"]
    for name, change in (("cut off", whole.replace('x="592.0"', 'x="692.0"')),
                         ("hidden", whole.replace('x="576"', 'x="555"'))):
        wrong = look_at_drawings(bench, {name: change}, 1)[1]
        check(any(name in w for w in wrong), (name, wrong))

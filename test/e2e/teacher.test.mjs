// Our forward pass agrees with llama.cpp position by position, on its own
// greedy tokens: the trained demonstration model, and random models of each
// architecture over several weight types; those with windows after prompts many
// windows long. Skipped where the peer's package or
// our programs are not there. tools/peers/teacher.mjs takes any other model.
import assert from "node:assert/strict";
import {execFileSync} from "node:child_process";
import fs from "node:fs";
import os from "node:os";
import path from "node:path";
import {after, before, test} from "node:test";
import {fileURLToPath} from "node:url";

import {continuePrompts, judge, loadPeer, scoreRun} from "../../tools/peers/teacher.mjs";

const root = path.join(path.dirname(fileURLToPath(import.meta.url)), "../..");
const build = path.resolve(root, process.env.BATON_BUILD || "build");
const score = path.join(build, "score");
const mkgguf = path.join(build, "mkgguf");
const POSITIONS = 200;

let llama;
let missing;
let folder;

before(async () => {
    const lacking = [score, mkgguf].find((program) => !fs.existsSync(program));
    missing = lacking ? `${lacking} is not built` : undefined;
    try {
        llama = missing ? undefined : await loadPeer();
    } catch (error) {
        missing = `no peer: ${error.message.split("\n")[0]}`;
    }
    folder = fs.mkdtempSync(path.join(os.tmpdir(), "baton-teacher-"));
});

after(async () => {
    await llama?.dispose();
    fs.rmSync(folder, {recursive: true});
});

function makeModel(architecture, type) {
    const file = path.join(folder, `${architecture}-${type}.gguf`);
    const wide = architecture === "qwen3" ? ["--headdim", "128"] : [];
    execFileSync(mkgguf, ["--arch", architecture, "--type", type, "--dim", "256",
                          "--layers", "2", "--heads", "4", "--kv", "2",
                          "--ffn", "512", "--vocab", "512", "--scale", "0.5",
                          ...wide, file]);
    return file;
}

function check(verdict, model) {
    assert.ok(verdict.agreed >= verdict.positions - verdict.positions / 200,
              `${path.basename(model)}: ${JSON.stringify(verdict)}`);
}

async function agree(model, flags = []) {
    const runs = await continuePrompts(llama, model,
                                       {prompts: 4, count: POSITIONS});
    const verdict = judge(runs, score, model, flags);
    assert.ok(verdict.positions >= POSITIONS);
    check(verdict, model);
}

test("the demonstration model agrees, fast and reference", async () => {
    assert.equal(missing, undefined);
    const demo = path.join(root, "models/demo.gguf");
    await agree(demo);
    await agree(demo, ["--ref"]);
});

const types = ["f32", "f16", "bf16", "q8_0", "q4_0", "q4_1", "q5_0", "q5_1",
               "q2_k", "q3_k", "q4_k", "q5_k", "q6_k"];
for (const architecture of ["llama", "qwen2", "qwen3"]) {
    for (const type of types) {
        test(`random ${architecture} in ${type} agrees`, async () => {
            assert.equal(missing, undefined);
            await agree(makeModel(architecture, type));
        });
    }
}

// Of 6 layers one sees all; by 2 each other one does. Quantised ones are shallow:
// each norm on a summand amplifies what two roundings of one number differ in.
function makeGemma(type) {
    const file = path.join(folder, `gemma3-${type}.gguf`);
    const shape = type === "f32" || type === "f16"
        ? ["--layers", "6", "--window", "64"]
        : ["--layers", "2", "--pattern", "2", "--window", "96"];
    execFileSync(mkgguf, ["--arch", "gemma3", "--type", type, "--dim", "256",
                          "--heads", "4", "--kv", "2", "--ffn", "512",
                          "--vocab", "512", "--scale", "0.5", ...shape, file]);
    return file;
}

const LONG = {prompts: 100, count: 1000, longest: 400};
for (const type of ["f32", "f16", "q8_0", "q4_k"]) {
    test(`random gemma3 in ${type} agrees across windows`, async () => {
        assert.equal(missing, undefined);
        const model = makeGemma(type);
        const runs = await continuePrompts(llama, model, LONG);
        check(judge(runs, score, model), model);
        const {ids} = runs.at(-1);
        assert.deepEqual(
            scoreRun(score, model, ids, ["--chunk", "7", "--block", "16"]),
            scoreRun(score, model, ids));
        if (type === "f32") {
            check(judge(runs.slice(-10), score, model, ["--ref"]), model);
        }
    });
}

// The other window is another model: the comparison above would see it.
test("a window longer by one disagrees", async () => {
    assert.equal(missing, undefined);
    const model = makeGemma("f32");
    const runs = await continuePrompts(llama, model,
                                       {prompts: 20, count: 200, longest: 400});
    const wrong = path.join(folder, "wrong.gguf");
    execFileSync(mkgguf, ["--arch", "gemma3", "--type", "f32", "--dim", "256",
                          "--layers", "6", "--window", "65", "--heads", "4",
                          "--kv", "2", "--ffn", "512", "--vocab", "512",
                          "--scale", "0.5", wrong]);
    const verdict = judge(runs, score, wrong);
    assert.ok(verdict.agreed < verdict.positions * 0.97,
              JSON.stringify(verdict));
});

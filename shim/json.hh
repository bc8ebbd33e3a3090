// SPDX-License-Identifier: MIT
// JSON as the report, the profile and the tools write it: an object or array is opened, filled and
// closed in the order of the text; numbers stay below 2^53 in practice.
#pragma once

#include <cstdint>
#include <cstdio>
#include <string>

namespace storm {

class JsonWriter {
public:
    void open(char bracket) // '{' or '['
    {
        separate();
        text_ += bracket;
        first_ = true;
    }
    void close(char bracket)
    {
        text_ += bracket;
        first_ = false;
    }
    JsonWriter& key(const char* name)
    {
        separate();
        quote(name);
        text_ += ':';
        first_ = true; // the value needs no comma before it
        return *this;
    }
    void value(const std::string& text)
    {
        separate();
        quote(text);
    }
    void value(const char* text) { value(std::string(text)); }
    void value(std::uint64_t number) { raw(std::to_string(number)); }
    void value(std::int64_t number) { raw(std::to_string(number)); }
    void value(int number) { raw(std::to_string(number)); }
    void value(bool yes) { raw(yes ? "true" : "false"); }
    void value(double number)
    {
        char digits[40];
        std::snprintf(digits, sizeof digits, "%.6g", number);
        raw(digits);
    }
    template <class T>
    void member(const char* name, const T& content)
    {
        key(name).value(content);
    }
    const std::string& text() const { return text_; }
    void line() { text_ += '\n'; }

private:
    void separate()
    {
        if (!first_)
            text_ += ',';
        first_ = false;
    }
    void raw(const std::string& digits)
    {
        separate();
        text_ += digits;
    }
    // '<' is escaped too, so that the text may stand inside an HTML page.
    void quote(const std::string& text)
    {
        text_ += '"';
        for (const char c : text) {
            if (c == '"' || c == '\\') {
                text_ += '\\';
                text_ += c;
            } else if (static_cast<unsigned char>(c) < 0x20 || c == '<' || c == 0x7f) {
                char escape[8];
                std::snprintf(escape, sizeof escape, "\\u%04x", static_cast<unsigned>(c));
                text_ += escape;
            } else {
                text_ += c;
            }
        }
        text_ += '"';
    }

    std::string text_;
    bool first_ = true;
};

} // namespace storm
